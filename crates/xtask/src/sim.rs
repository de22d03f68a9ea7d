//! The simulator, built with optimisation: a debug build runs too few seeds per second.
//!
//! The flag `--cfg redlatch_sim` compiles the switches into the library by which rules are broken.

use std::env;

use crate::{
    command::{self, cargo},
    steps::Steps,
    suite::{Depth, Verdict},
};

/// Runs the simulator with these arguments.
pub(crate) fn forward(args: &[String]) -> Result<Verdict, String> {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    run(&args).map(|()| Verdict::Passed)
}

/// Runs the simulator as the suite does: the unchanged library, the planted faults, the scenarios
/// that the library must pass, and the expected violations.
pub(crate) fn all(depth: Depth, steps: &mut Steps) {
    let [seeds, faults, scenarios] = match depth {
        Depth::Fast => ["1000", "100", "60"],
        Depth::Ci => ["5000", "300", "60"],
        Depth::Night => ["200000", "2000", "500"],
    };
    // Some planted faults need more seeds than the bound by day. The simulator lists them.
    if steps.run("simulator, built", || run(&["--help"])).is_none() {
        return;
    }
    steps.run("simulator, seeds", || run(&["--seeds", seeds]));
    steps.run("simulator, planted faults", || {
        run(&["--mutants", "--at-most", faults])
    });
    steps.run("simulator, scenarios", || {
        run(&["--scenarios", "--seeds", scenarios])
    });
    steps.run("simulator, expected violations", || {
        run(&["--expected", "--seeds", scenarios])
    });
}

fn run(args: &[&str]) -> Result<(), String> {
    let cargo_args = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "redlatch-sim",
        // In a shared target directory, the different flags would make other builds start anew.
        "--target-dir",
        "target/sim",
        "--",
    ];
    let mut cargo = cargo(&[&cargo_args[..], args].concat());
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    cargo.env("RUSTFLAGS", format!("{flags} --cfg redlatch_sim"));
    command::run(&mut cargo)
}
