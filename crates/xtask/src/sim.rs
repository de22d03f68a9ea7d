//! The simulator, built with some optimisation: a debug build runs too few seeds per second, and
//! more optimisation costs more time than its seeds save.
//!
//! The flag `--cfg redlatch_sim` compiles the switches into the library by which rules are broken.

use std::{
    env,
    ffi::OsStr,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    command::{self, cargo, yielding},
    steps::Steps,
    suite::Depth,
};

/// Runs the simulator as the suite does: the unchanged library, the planted faults, the scenarios
/// that the library must pass, and the expected violations.
pub(crate) fn all(depth: Depth, steps: &mut Steps) {
    // Some planted faults need more seeds than the bound by day. The simulator lists them.
    // Each night has seeds of its own; a failure names its seed.
    let (first, [seeds, faults, scenarios, ticks]) = match depth {
        Depth::Day => (0, ["1000", "400", "60", "1"]),
        Depth::Night => (night() * 5_000, ["5000", "2000", "150", "2"]),
    };
    let first = first.to_string();
    steps.run("simulator, seeds", || {
        run(&["--seed", &*first, "--seeds", seeds])
    });
    steps.run("simulator, doubled requests", || {
        run(&["--fault", "doubled", "--seeds", scenarios])
    });
    steps.run("simulator, planted faults", || {
        run(&["--mutants", "--at-most", faults])
    });
    steps.run("simulator, scenarios", || {
        run(&["--scenarios", "--seeds", scenarios])
    });
    steps.run("simulator, expected violations", || {
        run(&["--expected", "--seeds", scenarios])
    });
    steps.run("small worlds", || run(&["--small", ticks]));
    if depth == Depth::Night {
        steps.run("small worlds, planted faults", || {
            run(&["--small", "2", "--mutants"])
        });
    }
}

/// Returns the number of the day.
fn night() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / 86_400)
}

/// Builds the simulator.
pub(crate) fn build() -> Result<(), String> {
    command::run(&mut call("build"))
}

/// Runs the simulator with these arguments.
pub(crate) fn run<S: AsRef<OsStr>>(args: &[S]) -> Result<(), String> {
    command::run(call("run").arg("--").args(args))
}

/// Returns the command by which cargo builds or runs the simulator: optimised, with the checks of
/// an unoptimised build, and behind tests that meet real clocks.
fn call(what: &str) -> Command {
    // In a shared target directory, the different flags would make other builds start anew.
    let args = "--quiet --release --package redlatch-sim --target-dir target/sim";
    let mut cargo = yielding(cargo([what].into_iter().chain(args.split(' '))));
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    cargo
        .env("RUSTFLAGS", format!("{flags} --cfg redlatch_sim"))
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    cargo
}
