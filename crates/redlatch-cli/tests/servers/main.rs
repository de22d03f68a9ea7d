//! The command `redlatch` on real servers: those of `REDLATCH_TEST_SERVERS`, or of the `PATH`. The
//! tests of the verbs are those that also run on the server inside of the test's process. Each has
//! one of the servers; `doctor` has every one.

#![cfg(target_os = "linux")]
// Helpers of tests fail by panicking, and tests run on real clocks.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used)]

mod codes;
mod doctor;
#[path = "../cli/elect.rs"]
mod elect;
#[path = "../cli/killing.rs"]
mod killing;
mod load;
#[path = "../cli/once.rs"]
mod once;
#[path = "../cli/operate.rs"]
mod operate;
#[path = "../cli/recipes.rs"]
mod recipes;
#[path = "../cli/record.rs"]
mod record;
#[path = "../cli/run.rs"]
mod run;
#[path = "../cli/see.rs"]
mod see;
mod server;
#[path = "../cli/signals.rs"]
mod signals;
#[path = "../cli/starts.rs"]
mod starts;
#[path = "../cli/support.rs"]
mod support;
#[path = "../cli/terminal.rs"]
mod terminal;
#[path = "../cli/top.rs"]
mod top;
