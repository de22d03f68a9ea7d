//! The simulator, built with optimisation: a debug build has too few seeds per second.
//!
//! The flag `--cfg redlatch_sim` gives the library the switches by which rules are broken.

use std::env;

use crate::{
    command::{self, cargo},
    steps::Steps,
    suite::Verdict,
};

/// Passes the arguments on.
pub(crate) fn forward(args: &[String]) -> Result<Verdict, String> {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    run(&args).map(|()| Verdict::Passed)
}

/// Runs what every full test run asks of it: the library as it is, every planted fault, the
/// scenarios that it has to pass, and the violations that are expected.
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
        // Other flags would make other builds begin anew.
        "--target-dir",
        "target/sim",
        "--",
    ];
    let mut cargo = cargo(&[&cargo_args[..], args].concat());
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    cargo.env("RUSTFLAGS", format!("{flags} --cfg redlatch_sim"));
    command::run(&mut cargo)
}
