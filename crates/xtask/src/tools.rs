//! The programs of the workspace that tasks start.

use std::{ffi::OsStr, process::Command};

use crate::command::{self, cargo, root};

/// Runs a case of `tools.sh`, which only starts other tools.
pub(crate) fn script(args: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<(), String> {
    let mut sh = Command::new("sh");
    sh.arg("crates/xtask/tools.sh").current_dir(root());
    command::run(sh.args(args))
}

/// Runs the soak, on the first of `servers` if they are given. The build is not optimised: the soak
/// mostly waits for servers, and an unoptimised build checks its arithmetic.
pub(crate) fn soak(args: &[String], servers: Option<&str>) -> Result<(), String> {
    let mut command = cargo("run --quiet --package redlatch-soak --".split(' '));
    if let Some(servers) = servers {
        command.env("REDLATCH_TEST_SERVERS", servers);
    }
    command::run(command.args(args))
}

/// Builds the soak without running it.
pub(crate) fn build_soak() -> Result<(), String> {
    command::run(&mut cargo(["build", "--package", "redlatch-soak"]))
}

/// Runs the benchmarks, built with optimisation.
pub(crate) fn bench(args: &[String]) -> Result<(), String> {
    let mut command = cargo("run --quiet --release --package redlatch-bench --".split(' '));
    command::run(command.args(args))
}

/// Records the vectors of `docs/contributing/protocol.md` on the embedded server, into the folder
/// `vectors`. A test fails while the folder has others.
pub(crate) fn vectors() -> Result<(), String> {
    let run = "run --quiet --package redlatch-vectors";
    command::run(&mut cargo(run.split(' ')))
}
