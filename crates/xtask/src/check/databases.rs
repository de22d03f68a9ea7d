//! `cargo xtask check databases`: runs the SQL statements of `redlatch-fence` in PostgreSQL and
//! MariaDB, which `tests/databases/run` starts.

use std::process::Command;

use super::{
    no_arguments,
    package::{lint, target},
};
use crate::{
    command::{self, root},
    steps::Steps,
};

/// Runs the check.
pub(super) fn run(args: &[String], steps: &mut Steps) -> Result<(), String> {
    no_arguments(args)?;
    steps.run("lints", || lint(FOLDER));
    steps.run("databases", || {
        let program = root().join(FOLDER).join("run");
        command::run(Command::new(program).arg(target()))
    });
    Ok(())
}

const FOLDER: &str = "tests/databases";
