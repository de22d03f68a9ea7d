//! Services over HTTP with very many connections.

use crate::{
    command::{self, cargo},
    suite,
    tally::Tally,
};

/// Builds the test program.
pub(super) fn build() -> Result<(), String> {
    command::run(cargo(&TEST).arg("--no-run"))
}

/// Runs the test of the HTTP layers with so many connections: idle ones hold no permit, clients
/// that hang up give theirs back, and without the server of the permits, each layer answers as it
/// was told. The test raises its own limit of open files.
pub(super) fn run(connections: &str) -> Result<(), String> {
    let mut command = cargo(&TEST);
    command.args([
        "connections::many_connections_hold_no_permit_and_are_answered",
        "--",
        "--exact",
    ]);
    command.env("REDLATCH_TEST_CONNECTIONS", connections);
    let mut tally = Tally::default();
    suite::counted(&mut command, &mut tally)?;
    if tally.passed() == 0 {
        return Err("there is no such test".to_owned());
    }
    Ok(())
}

const TEST: [&str; 5] = ["test", "--package", "redlatch-tower", "--test", "it"];
