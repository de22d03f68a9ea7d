//! Everything a change has to pass.

use crate::{
    check,
    command::{self, cargo},
    members::{self, Member},
    servers::Wanted,
    steps::Steps,
    suite::{self, Verdict},
};

/// Runs the tests, then all other checks, and closes with the times and the test runner's own
/// lines.
///
/// A check that fails does not keep the others from running, so that one run tells all that is
/// wrong.
pub(crate) fn run(wanted: &Wanted) -> Result<Verdict, String> {
    let members = members::all()?;
    let mut steps = Steps::default();
    let tally = suite::run(wanted, &mut steps)?;
    steps.run("formatting", formatting);
    steps.run("lints", lints);
    steps.run("documentation", documentation);
    steps.run("features", || features(&members));
    steps.run("packaging", || packaging(&members));
    println!();
    for line in tally.failures() {
        println!("{line}");
    }
    for line in tally.lines() {
        println!("{line}");
    }
    println!(
        "\n{steps}\n\nnot run, since they take long:\n{}",
        check::list()
    );
    println!("{tally}");
    Ok(steps.verdict())
}

fn formatting() -> Result<(), String> {
    run_cargo(&["fmt", "--all", "--check"])
}

fn lints() -> Result<(), String> {
    run_cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "--deny",
        "warnings",
    ])
}

fn documentation() -> Result<(), String> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
    command::run(command.env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Builds each published crate alone, with no feature, with each, and with all: in a workspace
/// build crates lend each other the features of their dependencies, and hide that one of them is
/// missing.
fn features(members: &[Member]) -> Result<(), String> {
    for member in members.iter().filter(|member| member.published) {
        let alone = ["check", "--package", &member.name, "--no-default-features"];
        run_cargo(&alone)?;
        for feature in &member.features {
            run_cargo(&[&alone[..], &["--features", feature]].concat())?;
        }
        if member.features.len() > 1 {
            run_cargo(&["check", "--package", &member.name, "--all-features"])?;
        }
    }
    Ok(())
}

/// Packages all published crates together, and builds them from their packages: cargo resolves
/// those among them that the registry does not have yet to the packages just made. What is packaged
/// is the working copy, committed or not.
fn packaging(members: &[Member]) -> Result<(), String> {
    let mut args = vec!["package", "--workspace", "--allow-dirty"];
    for member in members.iter().filter(|member| !member.published) {
        args.extend(["--exclude", &member.name]);
    }
    // What cargo unpacks it keeps by the path of its target directory, also when the package has
    // changed since.
    let folder = format!("target/packaging-{}", std::process::id());
    command::run(cargo(&args).env("CARGO_TARGET_DIR", folder))
}

fn run_cargo(args: &[&str]) -> Result<(), String> {
    command::run(&mut cargo(args))
}
