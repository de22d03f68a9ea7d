//! `cargo xtask check semver`: compares the public API of the published libraries with that of a
//! git revision.

use std::{path::PathBuf, process::Command};

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
fn compare(program: &PathBuf, baseline: &str) -> Result<Outcome, String> {
    // The program is a command of cargo, and is called as cargo would call it.
    let mut command = Command::new(program);
    command
        .current_dir(root())
        .args(["semver-checks", "--baseline-rev", baseline]);
    let members = members::all()?;
    for member in members
        .iter()
        .filter(|member| member.published && !member.program)
    {
        if exists(baseline, &member.name)? {
            command.args(["--package", &member.name]);
        } else {
            println!("{} is new", member.name);
        }
    }
    command::show(&command);
    let status = command.status();
    let status = status.map_err(|error| command::cannot_run(&command, &error))?;
    match status.code() {
        Some(0) => Ok(Outcome::Compatible),
        Some(DIFFERENCES) => Ok(Outcome::Differs),
        _ => Err(format!("cargo-semver-checks ended with {status}")),
    }
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
