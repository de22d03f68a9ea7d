//! The soak: load and faults on real servers.

use crate::{
    command::{self, cargo},
    suite::Verdict,
};

/// Runs the soak with these arguments.
pub(crate) fn forward(args: &[String]) -> Result<Verdict, String> {
    run(args, None).map(|()| Verdict::Passed)
}

/// Runs the soak, on the first of `servers` if they are given. The build is not optimised: the soak
/// mostly waits for servers, and an unoptimised build checks its arithmetic.
pub(crate) fn run(args: &[String], servers: Option<&str>) -> Result<(), String> {
    let args = args.iter().map(String::as_str);
    let run = ["run", "--quiet", "--package", "redlatch-soak", "--"].into_iter();
    let all: Vec<_> = run.chain(args).collect();
    let mut command = cargo(&all);
    if let Some(servers) = servers {
        command.env("REDLATCH_TEST_SERVERS", servers);
    }
    command::run(&mut command)
}

/// Builds the soak without running it.
pub(crate) fn build() -> Result<(), String> {
    command::run(&mut cargo(&["build", "--package", "redlatch-soak"]))
}
