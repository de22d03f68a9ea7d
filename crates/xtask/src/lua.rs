//! The Lua scripts as servers run them: each is joined with the parts that scripts share.

use std::{fs, path::PathBuf};

use redlatch_lua::Source;

use crate::{command, suite::Verdict};

/// Prints the whole text of one script, or the names of all scripts with `--list`. Copies the
/// scripts of the Python client into its package with `--python`.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    let [name] = args else {
        return Err("lua: name one script, or say --list or --python".to_owned());
    };
    if name == "--list" {
        print!("{}", list());
    } else if name == "--python" {
        copy()?;
    } else {
        print!("{}", find(name)?.text);
    }
    Ok(Verdict::Passed)
}

fn find(name: &str) -> Result<&'static Source, String> {
    redlatch_lua::all()
        .find(|source| source.name == name)
        .ok_or_else(|| format!("lua: there is no script {name:?}; there are:\n{}", list()))
}

/// Lists the names of the scripts, one per line.
fn list() -> String {
    let mut names: Vec<_> = redlatch_lua::all().map(|source| source.name).collect();
    names.sort_unstable();
    names.into_iter().map(|name| format!("{name}\n")).collect()
}

/// The scripts that the Python client has.
const PYTHON: &[(&str, &[&str])] = &[("reentrant", OF_PYTHON), ("fair", OF_PYTHON)];
const OF_PYTHON: &[&str] = &["acquire", "renew", "release", "inspect", "withdraw"];

/// Returns the file of each script in the Python package.
fn python() -> Result<Vec<(PathBuf, &'static Source)>, String> {
    let folder = command::root().join("clients/python/src/redlatch/scripts");
    let mut files = Vec::new();
    for (kind, scripts) in PYTHON {
        for script in *scripts {
            let path = folder.join(kind).join(format!("{script}.lua"));
            files.push((path, find(&format!("{kind}/{script}"))?));
        }
    }
    Ok(files)
}

fn copy() -> Result<(), String> {
    for (path, source) in python()? {
        let failed = |error| format!("{} cannot be written: {error}", path.display());
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .map_err(failed)?;
        fs::write(&path, source.text).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_found_joined_with_its_shared_parts() {
        let release = find("fair/release")
            .expect("a script of the fair lock")
            .text;
        for part in [
            include_str!("../../../lua/core/queue.lua"),
            include_str!("../../../lua/fair/wake.lua"),
            include_str!("../../../lua/exclusive/release.lua"),
        ] {
            let (_, body) = part.split_once('\n').expect("a line of parts");
            assert!(release.contains(body), "{body}");
        }
    }

    #[test]
    fn python_package_has_the_scripts_as_servers_run_them() {
        for (path, source) in python().expect("scripts that exist") {
            let copied = fs::read_to_string(&path).unwrap_or_default();
            let same = copied == source.text;
            let path = path.display();
            assert!(same, "{path} differs: run `cargo xtask lua --python`");
        }
    }

    #[test]
    fn unknown_script_is_refused_with_the_list() {
        let refusal = find("fair/relese").expect_err("there is no such script");
        assert!(refusal.contains("\nfair/release\n"), "{refusal}");
        assert!(run(&[]).is_err());
    }

    #[test]
    fn no_two_scripts_share_a_name() {
        let list = list();
        let mut names: Vec<_> = list.lines().collect();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
