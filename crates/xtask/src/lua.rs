//! The Lua scripts as servers run them: each is joined with the parts that scripts share.

use redlatch_lua::Source;

/// Prints the whole text of scripts, or the names of all scripts with `--list`.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    match args {
        [] => return Err("lua: name a script, or say --list".to_owned()),
        [option] if option == "--list" => print!("{}", list()),
        names => {
            for name in names {
                print!("{}", find(name)?.text);
            }
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_script_is_refused_with_the_list() {
        let refusal = find("fair/relese").expect_err("there is no such script");
        assert!(refusal.contains("\nfair/release\n"), "{refusal}");
        assert!(run(&[]).is_err() && find("fair/release").is_ok());
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
