//! `cargo xtask check threads`: runs code that threads share under many schedules.
//!
//! A failure prints its schedule. To replay the failure, run the printed command with the schedule
//! in `REDLATCH_SCHEDULE` and the name of the test.

use std::env;

use crate::{
    command::{self, cargo, yielding},
    steps::Steps,
};

/// Runs the check.
pub(super) fn run(_: &[String], steps: &mut Steps) -> Result<(), String> {
    steps.run("schedules", || {
        // In a shared target directory, the different flags would make other builds start anew.
        let test = "test --package redlatch-core --lib --target-dir target/threads threads::";
        let mut cargo = cargo(test.split(' '));
        // Optimising takes longer than it saves.
        cargo.args(["--config", "profile.dev.package.redlatch-core.opt-level=0"]);
        let flags = env::var("RUSTFLAGS").unwrap_or_default();
        cargo.env("RUSTFLAGS", format!("{flags} --cfg shuttle"));
        command::run(&mut yielding(cargo))
    });
    Ok(())
}
