//! `cargo xtask sim`: runs seeds and reports the results.

#![allow(
    clippy::disallowed_methods,
    reason = "it runs seeds on threads of its own and measures how long that takes"
)]

use std::process::ExitCode;

use redlatch_sim::cli;

fn main() -> ExitCode {
    match cli::Args::parse(std::env::args().skip(1)) {
        Ok(args) => cli::main(&args),
        Err(message) => {
            eprintln!("{message}\n\n{}", cli::USAGE);
            ExitCode::from(2)
        }
    }
}
