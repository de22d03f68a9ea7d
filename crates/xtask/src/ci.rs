//! All checks that a change must pass.

use std::thread;

use crate::{
    check,
    command::{self, run_cargo, script, yielding},
    members::{self, Member},
    programs, servers,
    steps::Steps,
    suite::{self, Depth},
};

/// Runs the tests, then all other checks, and finally prints the times and the result lines of the
/// test runner. By night, it runs everything on everything: every behaviour on every backend, the
/// heavy checks, and more seeds and cases.
///
/// A failed check does not stop the others, so one run reports all problems.
pub(crate) fn run(depth: Depth) -> Result<(), String> {
    match depth {
        Depth::Day => println!("The gate: about 20 minutes on two idle cores."),
        Depth::Night => println!("Everything on everything, which takes hours."),
    }
    let mut steps = Steps::default();
    let tally = suite::run(depth, &mut steps)?;
    beyond_tests(depth, &mut steps)?;
    if depth == Depth::Night {
        check::all(&mut steps);
    }
    suite::print_failures(&tally);
    for line in &tally.lines {
        println!("{line}");
    }
    println!("\n{steps}\n");
    if depth == Depth::Day {
        let checks = check::list();
        println!("not run, since they take long:\n  cargo xtask nightly\n{checks}");
    }
    println!("{tally}");
    steps.verdict()
}

/// Runs the checks that need no server, and beside them the Python client.
fn beyond_tests(depth: Depth, steps: &mut Steps) -> Result<(), String> {
    let servers = servers::list(&servers::find()?);
    // Before the other builds, for which it would wait.
    let peers = steps.run("peers", programs::peers);
    let beside = thread::scope(|scope| {
        let python = scope.spawn(|| {
            let mut own = Steps::default();
            if let Some(peers) = &peers {
                suite::python(peers, &servers, &mut own);
            }
            own
        });
        steps.run("formatting", || run_cargo(["fmt", "--all", "--check"]));
        steps.run("lints", || run_cargo(LINTS.split(' ')));
        steps.run("documentation", || script(["documentation"]));
        steps.run("packaging", packaging);
        steps.run("features", || features(depth));
        python.join()
    });
    steps.add(beside.map_err(|_| "the steps of the Python client panicked")?);
    Ok(())
}

const LINTS: &str = "clippy --workspace --all-targets --all-features -- --deny warnings";

/// Checks published crates alone: in a workspace build, crates share the features of their
/// dependencies, which hides a missing one. By day what users name, and the facade with each of its
/// features, which are those of the other crates; by night each crate with each feature.
fn features(depth: Depth) -> Result<(), String> {
    let night = depth == Depth::Night;
    let members = members::all()?;
    let published = members.iter().filter(|member| member.published);
    let by_day = |member: &&Member| DOORS.contains(&member.name.as_str());
    for member in published.filter(|member| night || by_day(member)) {
        let alone = ["check", "--package", &member.name, "--no-default-features"];
        run_cargo(alone)?;
        if night || member.name == "redlatch" {
            for feature in &member.features {
                run_cargo([&alone[..], &["--features", feature]].concat())?;
            }
        }
        if member.features.len() > 1 {
            run_cargo(["check", "--package", &member.name, "--all-features"])?;
        }
    }
    Ok(())
}

/// What users name in their manifests, and what the rest stands on.
const DOORS: [&str; 4] = [
    "redlatch",
    "redlatch-cli",
    "redlatch-core",
    "redlatch-tower",
];

/// Packs all published crates together, from the working copy, committed or not. `check archives`
/// also builds what it packs. Checks that the packages apart from the workspace have lock files
/// that fit its crates.
fn packaging() -> Result<(), String> {
    for apart in ["examples/recipes", "tests/databases", "fuzz"] {
        let manifest = format!("{apart}/Cargo.toml");
        let locked = ["--workspace", "--locked", "--manifest-path", &manifest];
        run_cargo([&["update"], &locked[..]].concat())?;
    }
    let packing = members::packing(&members::all()?, &["package"]);
    command::run(&mut yielding(packing))
}
