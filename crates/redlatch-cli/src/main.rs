//! The command `redlatch`, which runs a command under a distributed lock.
//! `docs/book/src/operate/command.md` of the repository describes it.

// The command runs on real clocks and signals. The runtime that the lint points to is for the
// library itself.
#![allow(clippy::disallowed_methods)]

#[cfg(unix)]
mod app;

use std::process::ExitCode;

#[cfg(unix)]
fn main() -> ExitCode {
    app::main()
}

/// Process groups, and signals to them, are what the promise about the command rests on.
#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("redlatch: this system has no process groups; use Linux, macOS or a BSD");
    ExitCode::from(125)
}
