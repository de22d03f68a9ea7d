//! All checks that a change must pass.

use crate::{
    check,
    command::{self, cargo},
    facade, items,
    members::{self, Member},
    servers::Wanted,
    steps::Steps,
    suite::{self, Verdict},
};

/// Runs the tests, then all other checks, and finally prints the times and the result lines of the
/// test runner.
///
/// A failed check does not stop the others, so one run reports all problems.
pub(crate) fn run(wanted: &Wanted) -> Result<Verdict, String> {
    let members = members::all()?;
    let mut steps = Steps::default();
    let tally = suite::run(wanted, &mut steps)?;
    suite::python(wanted, &mut steps)?;
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
    command::run(command.env("RUSTDOCFLAGS", "--deny warnings"))?;
    items::check()?;
    facade::check()
}

/// Builds each published crate alone: without features, with each feature, and with all. In a
/// workspace build, crates share the features of their dependencies, which hides a missing one.
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

/// Packages all published crates together, and builds them from their packages. Cargo resolves
/// dependencies among them that the registry does not have yet to the new packages. The packages
/// contain the working copy, committed or not.
fn packaging(members: &[Member]) -> Result<(), String> {
    let mut args = vec!["package", "--workspace", "--allow-dirty"];
    for member in members.iter().filter(|member| !member.published) {
        args.extend(["--exclude", &member.name]);
    }
    // Cargo caches unpacked crates by the path of its target directory, even if the package has
    // changed since. Hence each run has its own directory.
    let folder = format!("target/packaging-{}", std::process::id());
    command::run(cargo(&args).env("CARGO_TARGET_DIR", folder))
}

fn run_cargo(args: &[&str]) -> Result<(), String> {
    command::run(&mut cargo(args))
}
