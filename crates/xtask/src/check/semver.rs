//! `cargo xtask check semver`: compares the public API of the published libraries with that of a
//! git revision.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    command::{self, cargo, root},
    members,
    steps::Steps,
    suite::Verdict,
};

/// Runs the check. The argument is the revision; without one it is the last release, and before the
/// first release the commit before this one.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    let release = release();
    let baseline = match args {
        [] => release.clone().unwrap_or_else(|| "HEAD^".to_owned()),
        [revision] => revision.clone(),
        _ => return Err(format!("check semver takes one revision: {args:?}")),
    };
    let mut steps = Steps::default();
    if let Some(program) = steps.run("cargo-semver-checks", program) {
        steps.run("public API", || {
            let outcome = compare(&program, &baseline)?;
            match (outcome, &release) {
                (Outcome::Compatible, _) => Ok(()),
                (Outcome::Differs, None) => {
                    println!("\nThere is no release yet, so the differences break no promise.");
                    Ok(())
                }
                (Outcome::Differs, Some(_)) => Err("it breaks users of the baseline".to_owned()),
            }
        });
    }
    println!("\n{steps}");
    Ok(steps.verdict())
}

enum Outcome {
    Compatible,
    Differs,
}

/// Compares all published libraries that the baseline has, too.
///
/// The program would build each library for itself, twice and with all its dependencies, which
/// takes most of an hour. So one build per side describes all of them.
fn compare(program: &Path, baseline: &str) -> Result<Outcome, String> {
    let mut libraries = Vec::new();
    for member in members::all()? {
        if !member.published || member.program {
            continue;
        }
        if exists(baseline, &member.name)? {
            libraries.push(member.name);
        } else {
            println!("{} is new", member.name);
        }
    }
    let folder = root().join("target/semver");
    let before = describe(
        &check_out(baseline, &folder)?,
        &libraries,
        &folder,
        "before",
    )?;
    let now = describe(&root(), &libraries, &folder, "now")?;
    let mut outcome = Outcome::Compatible;
    for library in &libraries {
        let page = format!("{}.json", library.replace('-', "_"));
        // The program is a command of cargo, and is called as cargo would call it.
        let mut command = Command::new(program);
        command.current_dir(root()).arg("semver-checks");
        command.arg("--baseline-rustdoc").arg(before.join(&page));
        command.arg("--current-rustdoc").arg(now.join(&page));
        println!("\n{library}");
        let status = command.status();
        let status = status.map_err(|error| command::cannot_run(&command, &error))?;
        match status.code() {
            Some(0) => {}
            Some(DIFFERENCES) => outcome = Outcome::Differs,
            _ => return Err(format!("cargo-semver-checks ended with {status}")),
        }
    }
    Ok(outcome)
}

/// Writes the files of a revision into a folder, and returns it.
fn check_out(revision: &str, folder: &Path) -> Result<PathBuf, String> {
    let sources = folder.join("sources");
    let archive = folder.join("sources.tar");
    // Files that the revision does not have would stay.
    let _ = fs::remove_dir_all(&sources);
    fs::create_dir_all(&sources).map_err(|error| format!("{}: {error}", sources.display()))?;
    let mut git = Command::new("git");
    let git = git.current_dir(root()).args(["archive", "--output"]);
    command::run(git.arg(&archive).arg(revision))?;
    let mut tar = Command::new("tar");
    command::run(tar.arg("xf").arg(&archive).arg("-C").arg(&sources))?;
    Ok(sources)
}

/// Writes rustdoc's description of each library in `sources`, and returns their folder.
fn describe(
    sources: &Path,
    libraries: &[String],
    folder: &Path,
    side: &str,
) -> Result<PathBuf, String> {
    let built = folder.join("built");
    let mut doc = cargo(&["doc", "--no-deps", "--lib", "--all-features"]);
    for library in libraries {
        doc.args(["--package", library]);
    }
    // The form is not stable, so the program has to be of the age of the compiler.
    doc.current_dir(sources)
        .env("CARGO_TARGET_DIR", &built)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTDOCFLAGS", DESCRIBE);
    command::run(&mut doc)?;
    let described = folder.join(side);
    let _ = fs::remove_dir_all(&described);
    fs::create_dir_all(&described).map_err(|error| format!("{}: {error}", described.display()))?;
    for library in libraries {
        let page = format!("{}.json", library.replace('-', "_"));
        let from = built.join("doc").join(&page);
        fs::rename(&from, described.join(&page))
            .map_err(|error| format!("{} is not described: {error}", from.display()))?;
    }
    Ok(described)
}

/// Tells whether the baseline has the package.
fn exists(baseline: &str, package: &str) -> Result<bool, String> {
    let mut git = Command::new("git");
    let pattern = format!("^name = \"{package}\"$");
    git.current_dir(root())
        .args(["grep", "--quiet", "-e", &pattern, baseline]);
    git.args(["--", "*Cargo.toml"]);
    match git
        .status()
        .map_err(|error| command::cannot_run(&git, &error))?
        .code()
    {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("git does not know the revision {baseline}")),
    }
}

/// The last release, if there is one.
fn release() -> Option<String> {
    let mut git = Command::new("git");
    let git = git.current_dir(root());
    let args = ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"];
    Some(command::output(git.args(args))?.trim().to_owned())
}

/// Returns a cargo-semver-checks: that of the `PATH`, or the one that this workspace has built, now
/// or before.
fn program() -> Result<PathBuf, String> {
    let own = root().join("target/tools/bin/cargo-semver-checks");
    for program in [PathBuf::from("cargo-semver-checks"), own.clone()] {
        let mut version = Command::new(&program);
        if command::output(version.args(["semver-checks", "--version"])).is_some() {
            return Ok(program);
        }
    }
    let mut install = cargo(&["install", "cargo-semver-checks", "--locked"]);
    command::run(install.args(["--root", "target/tools"]))?;
    Ok(own)
}

/// Options of rustdoc for the descriptions that cargo-semver-checks reads.
const DESCRIBE: &str = "-Z unstable-options --output-format json --document-private-items \
    --document-hidden-items --cap-lints allow";

/// The exit code that means that something has changed in a way that needs another version.
const DIFFERENCES: i32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_revision_are_found() {
        assert_eq!(exists("HEAD", "redlatch-core"), Ok(true));
        assert_eq!(exists("HEAD", "redlatch-no-such-crate"), Ok(false));
        assert!(exists("no-such-revision", "redlatch").is_err());
    }
}
