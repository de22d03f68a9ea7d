//! The command `redlatch` in full: rounds of a server that is stopped, a gigabyte, many objects.

use crate::{
    command::{self, cargo},
    suite,
    tally::Tally,
};

/// Builds the test program.
pub(super) fn build() -> Result<(), String> {
    command::run(cargo(&TEST).arg("--no-run"))
}

/// Runs so many rounds in which the server is stopped under `redlatch run`, a gigabyte through a
/// command, and `redlatch ls` of a hundred thousand objects. The tests print their times.
pub(super) fn run(rounds: &str, servers: &str) -> Result<(), String> {
    let mut command = cargo(&TEST);
    command.args(["load::", "--", "--nocapture", "--test-threads=1"]);
    command.env("REDLATCH_TEST_SERVERS", servers);
    command.env("REDLATCH_TEST_ROUNDS", rounds);
    command.env("REDLATCH_TEST_MEGABYTES", "1024");
    command.env("REDLATCH_TEST_OBJECTS", "100000");
    suite::counted(&mut command, &mut Tally::default())
}

const TEST: [&str; 7] = [
    "test",
    "--package",
    "redlatch-cli",
    "--features",
    "servers",
    "--test",
    "servers",
];
