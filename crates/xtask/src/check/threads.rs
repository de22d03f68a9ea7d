//! `cargo xtask check threads`: runs code that threads share under many schedules.
//!
//! A failure prints its schedule. To replay the failure, run the printed command with the schedule
//! in `REDLATCH_SCHEDULE` and the name of the test.

use std::env;

use super::no_arguments;
use crate::{
    command::{self, cargo, yielding},
    steps::Steps,
};

/// Runs the check.
pub(super) fn run(args: &[String], steps: &mut Steps) -> Result<(), String> {
    no_arguments(args)?;
    steps.run("schedules", || {
        let test = ["test", "--package", "redlatch-core", "--lib"];
        // In a shared target directory, the different flags would make other builds start anew.
        let own = ["--target-dir", "target/threads"];
        // Optimising takes longer than it saves.
        let plain = ["--config", "profile.dev.package.redlatch-core.opt-level=0"];
        let mut cargo = cargo(&[&test[..], &own, &plain, &["threads::"]].concat());
        let flags = env::var("RUSTFLAGS").unwrap_or_default();
        cargo.env("RUSTFLAGS", format!("{flags} --cfg shuttle"));
        command::run(&mut yielding(cargo))
    });
    Ok(())
}
