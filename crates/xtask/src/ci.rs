//! All checks that a change must pass.

use crate::{
    check, servers,
    steps::Steps,
    suite::{self, Depth},
};

/// Runs the tests, then all other checks, and finally prints the times and the result lines of the
/// test runner. By night, it runs everything on everything: every behaviour on every backend, the
/// heavy checks, and more seeds and cases.
///
/// A failed check does not stop the others, so one run reports all problems.
pub(crate) fn run(depth: Depth) -> Result<(), String> {
    let (length, period) = match depth {
        Depth::Day => ("The gate: about 20 minutes on two idle cores.", "day"),
        Depth::Night => ("Everything on everything, which takes hours.", "night"),
    };
    println!("{length}");
    let mut steps = Steps::default();
    let tally = suite::run(depth, &mut steps)?;
    let servers = servers::list(&servers::find()?);
    // Before the other builds, for which it would wait.
    steps.follow(["peers: build-peers"], &[]);
    let words = [("SERVERS", &*servers), ("PERIOD", period)];
    let python = |steps: &mut Steps| steps.follow(PYTHON.lines(), &words);
    steps.beside(python, |steps| {
        steps.follow(WITHOUT_SERVERS.lines(), &words)
    });
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

/// The Python client, a few hundred holds of both clients side by side, and a short deploy from the
/// libraries that need no other toolchain. `check peers` has all of them.
const PYTHON: &str = "\
!python client: python SERVERS
rust beside python: beside-python SERVERS 200
beside redis-py and rslock: beside-libraries SERVERS 300 4 --only redis-py --only rslock";

const WITHOUT_SERVERS: &str = "\
formatting: formatting
lints: clippy
documentation: documentation
packaging: packaging
features: features PERIOD";
