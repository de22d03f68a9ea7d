//! The test suite.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    num::NonZero,
    process::{Command, Stdio},
    thread,
};

use crate::{
    command::{self, cannot_run, cargo, show},
    libraries, python,
    servers::{self, Wanted},
    sim,
    steps::Steps,
    tally::Tally,
};

/// The result of all steps. The reasons have been printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
}

/// The variable that sets the number of tests that a test program runs at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs all tests, and finally prints the times of the steps and the sums.
pub(crate) fn test(wanted: &Wanted) -> Result<Verdict, String> {
    let mut steps = Steps::default();
    let tally = run(wanted, &mut steps)?;
    println!();
    for line in tally.failures() {
        println!("{line}");
    }
    println!("{steps}\n\n{tally}");
    Ok(steps.verdict())
}

/// Runs all tests as steps. The tally holds the results of `cargo test`.
///
/// # Errors
///
/// Returns an error if there is no server to test against.
pub(crate) fn run(wanted: &Wanted, steps: &mut Steps) -> Result<Tally, String> {
    let servers = servers::list(&servers::find(wanted)?);
    let mut tally = Tally::default();
    // A separate build keeps its time out of the time of the tests.
    let built = steps.run("test programs", || {
        command::run(&mut tests(&servers, &["--no-run"]))
    });
    let tested = built.and_then(|()| steps.run("tests", || run_tests(&servers, &mut tally)));
    if tested.is_some() {
        sim::all(steps);
    }
    Ok(tally)
}

/// Runs the tests of the Python client, a few hundred holds of both clients side by side, and a
/// short deploy from two other libraries.
///
/// # Errors
///
/// Returns an error if there is no server to test against.
pub(crate) fn python(wanted: &Wanted, steps: &mut Steps) -> Result<(), String> {
    let servers = servers::list(&servers::find(wanted)?);
    if let Some(python) = steps.run("python client", || python::test(&servers)) {
        steps.run("rust beside python", || {
            python::peers(&python, "200", &servers)
        });
        // The libraries that need no other toolchain. `check peers` has all of them.
        steps.run("beside redis-py and rslock", || {
            libraries::run(&python, &["redis-py", "rslock"], ["300", "4"], &servers)
        });
    }
    Ok(())
}

/// Returns the command that runs all tests of the workspace.
pub(crate) fn tests(servers: &str, more: &[&str]) -> Command {
    let all = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    let mut command = cargo(&[&all[..], more].concat());
    command.env("REDLATCH_TEST_SERVERS", servers);
    if env::var_os(THREADS).is_none() {
        // Most tests on real servers wait for leases to end, so more of them than cores can run at
        // a time.
        let cores = thread::available_parallelism().map_or(2, NonZero::get);
        command.env(THREADS, (3 * cores).to_string());
    }
    command
}

/// Runs all tests of the workspace once and counts them.
pub(crate) fn run_tests(servers: &str, tally: &mut Tally) -> Result<(), String> {
    counted(&mut tests(servers, &[]), tally)
}

/// Runs a command of `cargo test` and counts its tests. No test at all is an error.
pub(crate) fn counted(command: &mut Command, tally: &mut Tally) -> Result<(), String> {
    let succeeded = stream(command, tally)?;
    match (succeeded, tally.failed()) {
        (true, 0) if tally.is_empty() => Err("no test ran".to_owned()),
        (true, 0) => Ok(()),
        (false, 0) => Err("cargo test failed before or beside the tests".to_owned()),
        (_, failed) => Err(format!("{failed} tests failed")),
    }
}

/// Passes the output on line by line, counts it, and returns whether the command succeeded.
fn stream(command: &mut Command, tally: &mut Tally) -> Result<bool, String> {
    show(command);
    let broken =
        |error: io::Error| format!("the output of cargo test cannot be passed on: {error}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_run(command, &error))?;
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
    Ok(status.success())
}
