//! `cargo xtask sim`: runs seeds and reports the results.

#![allow(
    clippy::disallowed_methods,
    reason = "it runs seeds on threads of its own and measures how long that takes"
)]

use std::process::ExitCode;

use redlatch_sim::cli;

fn main() -> ExitCode {
    cli::main(&cli::Args::read())
}
