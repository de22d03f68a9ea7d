//! The test suite.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    num::NonZero,
    process::{Command, Stdio},
    thread,
};

use crate::{
    command::{cannot_run, cargo, show},
    servers::{self, Wanted},
    sim,
    tally::Tally,
};

/// What all of it came to. The reasons have been printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
}

/// The variable that tells test programs how many tests to run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs all tests and closes with their sums.
pub(crate) fn test(wanted: &Wanted) -> Result<Verdict, String> {
    let (tally, outcome) = run(wanted)?;
    println!();
    for line in tally.failures() {
        println!("{line}");
    }
    if let Err(message) = &outcome {
        println!("tests: FAILED: {message}");
    }
    println!("{tally}");
    Ok(if outcome.is_ok() {
        Verdict::Passed
    } else {
        Verdict::Failed
    })
}

/// Runs all tests. The tally is what was seen, the outcome says whether that is a success.
pub(crate) fn run(wanted: &Wanted) -> Result<(Tally, Result<(), String>), String> {
    let servers = servers::find(wanted)?;
    let mut command = cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.env("REDLATCH_TEST_SERVERS", servers::list(&servers));
    if env::var_os(THREADS).is_none() {
        // Most tests on real servers wait for leases to end.
        let cores = thread::available_parallelism().map_or(2, NonZero::get);
        command.env(THREADS, (3 * cores).to_string());
    }
    let (tally, succeeded) = stream(&mut command)?;
    let outcome = match (succeeded, tally.failed()) {
        (true, 0) if tally.is_empty() => Err("no test ran".to_owned()),
        (true, 0) => sim::all(),
        (false, 0) => Err("cargo test failed before or beside the tests".to_owned()),
        (_, failed) => Err(format!("{failed} tests failed")),
    };
    Ok((tally, outcome))
}

/// Passes the output on line by line while it comes.
fn stream(command: &mut Command) -> Result<(Tally, bool), String> {
    show(command);
    let broken =
        |error: io::Error| format!("the output of cargo test cannot be passed on: {error}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_run(command, &error))?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        let mut out = io::stdout();
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(broken)?;
            tally.read(&String::from_utf8_lossy(&line));
            out.write_all(&line)
                .and_then(|()| out.write_all(b"\n"))
                .map_err(broken)?;
        }
    }
    let status = child.wait().map_err(broken)?;
    Ok((tally, status.success()))
}
