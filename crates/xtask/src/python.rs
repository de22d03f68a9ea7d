//! The Python client: its tests, and its workers and those of other libraries beside those of the
//! Rust client.
//!
//! Everything is in virtual environments in the target folder. What cannot be had fails the step.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use redlatch_lua::{Exclusive, FAIR, LIMIT, REENTRANT};

use crate::{
    command::{self, root},
    tools::script,
};

/// Builds the wheel from the source distribution, and runs the tests of the Python client with the
/// wheel installed. The programs of the README run in an environment that has the wheel alone.
/// Returns the Python of the environment with the tests.
pub(crate) fn test(servers: &str) -> Result<PathBuf, String> {
    script(["python"])?;
    check_scripts(&mut Command::new(fresh()))?;
    let python = root().join("target/python/bin/python");
    let checkout = root().join("clients/python/src");
    check_scripts(Command::new(&python).env("PYTHONPATH", checkout))?;
    pytest(&python, servers)?;
    Ok(python)
}

/// The Python of the environment that has the wheel and what it depends on.
fn fresh() -> PathBuf {
    root().join("target/python-fresh/bin/python")
}

/// Checks that the client which a Python imports joins its scripts as the Rust client does.
fn check_scripts(python: &mut Command) -> Result<(), String> {
    let of = |of: &Exclusive| {
        [
            of.acquire,
            of.renew,
            of.release,
            of.inspect,
            of.force,
            of.withdraw,
        ]
    };
    let mut scripts = [of(&REENTRANT), of(&FAIR.exclusive)].concat();
    scripts.extend([LIMIT.acquire, LIMIT.settle, LIMIT.look]);
    let names = scripts.iter().map(|script| script.name);
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    command::show(python.args(["-c", JOIN]).args(names));
    let texts = scripts.iter().map(|script| script.text).collect();
    if command::output(python) == Some(texts) {
        Ok(())
    } else {
        Err("the Python client does not have the scripts of the Rust client".to_owned())
    }
}

const JOIN: &str = "\
import sys
from redlatch._scripts import script_text
print(*map(script_text, sys.argv[1:]), sep='', end='')";

/// Runs the tests again, on each server but the first, in the environments that [`test()`] made.
pub(crate) fn test_on_others(python: &Path, servers: &str) -> Result<(), String> {
    let mut others = servers.split(',').skip(1);
    others.try_for_each(|server| pytest(python, server))
}

/// Runs the tests on the first of the servers.
fn pytest(python: &Path, servers: &str) -> Result<(), String> {
    command::run(
        Command::new(python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .current_dir(root().join("clients/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("REDLATCH_FRESH_PYTHON", fresh())
            .env("REDLATCH_TEST_SERVERS", servers),
    )
}

/// Runs workers of both clients on one server until each kind of lock was held `rounds` times, and
/// checks the history of their holds.
pub(crate) fn peers(
    program: &Path,
    python: &Path,
    rounds: &str,
    servers: &str,
) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg("--python").arg(python);
    command.args(["--rounds", rounds]);
    command::run(command.env("REDLATCH_TEST_SERVERS", servers))
}

/// Runs locks of other libraries beside `redlatch-compat`, or of all libraries if none is named:
/// each name is held `rounds` times, and `processes` are replaced one by one.
pub(crate) fn libraries(
    program: &Path,
    python: &Path,
    only: &[&str],
    [rounds, processes]: [&str; 2],
    servers: &str,
) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["libraries", "--programs"]);
    command.arg(root().join("target/peers"));
    command.arg("--python").arg(python);
    command.args(["--rounds", rounds, "--processes", processes]);
    for name in only {
        command.args(["--only", name]);
    }
    command::run(command.env("REDLATCH_TEST_SERVERS", servers))
}
