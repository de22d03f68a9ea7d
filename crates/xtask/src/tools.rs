//! The programs of the workspace that tasks start.

use crate::command::{self, cargo};

/// Runs the soak, on the first of `servers` if they are given. The build is not optimised: the soak
/// mostly waits for servers, and an unoptimised build checks its arithmetic.
pub(crate) fn soak(args: &[String], servers: Option<&str>) -> Result<(), String> {
    let mut command = cargo(&["run", "--quiet", "--package", "redlatch-soak", "--"]);
    if let Some(servers) = servers {
        command.env("REDLATCH_TEST_SERVERS", servers);
    }
    command::run(command.args(args))
}

/// Builds the soak without running it.
pub(crate) fn build_soak() -> Result<(), String> {
    command::run(&mut cargo(&["build", "--package", "redlatch-soak"]))
}

/// Runs the benchmarks, built with optimisation.
pub(crate) fn bench(args: &[String]) -> Result<(), String> {
    let mut command = cargo(&["run", "--quiet", "--release", "--package", "redlatch-bench"]);
    command::run(command.arg("--").args(args))
}

/// Records the vectors of `docs/contributing/protocol.md` on the embedded server, into the folder
/// `vectors`. A test fails while the folder has others.
pub(crate) fn vectors() -> Result<(), String> {
    command::run(&mut cargo(&[
        "run",
        "--quiet",
        "--package",
        "redlatch-vectors",
    ]))
}
