//! The simulator, built with optimisation: a debug build runs too few seeds per second.
//!
//! The flag `--cfg redlatch_sim` compiles the switches into the library by which rules are broken.

use std::env;

use crate::{
    command::{self, cargo},
    steps::Steps,
    suite::Verdict,
};

/// Runs the simulator with these arguments.
pub(crate) fn forward(args: &[String]) -> Result<Verdict, String> {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    run(&args).map(|()| Verdict::Passed)
}

/// Runs the simulator as every full test run does: the unchanged library, every planted fault, the
/// scenarios that the library must pass, and the expected violations.
pub(crate) fn all(steps: &mut Steps) {
    steps.run("simulator", || run(&["--seeds", "5000"]));
    steps.run("planted faults", || run(&["--mutants"]));
    steps.run("scenarios", || run(&["--scenarios"]));
    steps.run("expected violations", || run(&["--expected"]));
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
