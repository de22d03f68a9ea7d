//! The Python client: its tests, and its workers beside those of the Rust client.
//!
//! Everything is in a virtual environment in the target folder. What cannot be had fails the step.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use redlatch_lua::{Exclusive, FAIR, LIMIT, REENTRANT};

use crate::command::{self, root, which};

/// The packages of the environment. The wheel is built without isolation, so that its build tool is
/// among them.
const PACKAGES: &[&str] = &[
    "redis>=5",
    "pytest>=8",
    "mypy>=1.11",
    "gevent>=24",
    "eventlet>=0.36",
    "build>=1",
    "hatchling>=1.24",
];

/// The environment that has the wheel and what it depends on.
const FRESH: &str = "target/python-fresh";

/// Builds the wheel from the source distribution, and runs the tests of the Python client with the
/// wheel installed. The programs of the README run in an environment that has the wheel alone.
/// Returns the Python of the environment with the tests.
pub(crate) fn test(servers: &str) -> Result<PathBuf, String> {
    let client = root().join("clients/python");
    let python = environment()?;
    let built = root().join("target/python-dist");
    if built.exists() {
        let failed = |error| format!("{} cannot be removed: {error}", built.display());
        fs::remove_dir_all(&built).map_err(failed)?;
    }
    command::run(
        Command::new(&python)
            .args(["-m", "build", "--no-isolation", "--outdir"])
            .args([&built, &client]),
    )?;
    let wheel = wheel(&built)?;
    install(&python, &["--no-deps", "--force-reinstall"], &[&wheel])?;
    let fresh = make_environment(FRESH, &["--clear"])?;
    install(&fresh, &[], &[&wheel])?;
    check_scripts(&mut Command::new(&fresh))?;
    let checkout = client.join("src");
    check_scripts(Command::new(&python).env("PYTHONPATH", checkout))?;
    pytest(&python, &fresh, servers)?;
    Ok(python)
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
    let fresh = root().join(FRESH).join("bin/python");
    let mut others = servers.split(',').skip(1);
    others.try_for_each(|server| pytest(python, &fresh, server))
}

/// Runs the tests on the first of the servers.
fn pytest(python: &Path, fresh: &Path, servers: &str) -> Result<(), String> {
    command::run(
        Command::new(python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .current_dir(root().join("clients/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("REDLATCH_FRESH_PYTHON", fresh)
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
    command
        .arg("--python")
        .arg(python)
        .args(["--rounds", rounds]);
    command::run(command.env("REDLATCH_TEST_SERVERS", servers))
}

/// Makes the virtual environment if there is none, and installs the packages. Returns its Python.
fn environment() -> Result<PathBuf, String> {
    let folder = "target/python";
    let mut python = root().join(folder).join("bin/python");
    if !python.exists() {
        python = make_environment(folder, &[])?;
    }
    install(&python, &[], PACKAGES)?;
    Ok(python)
}

/// Makes a virtual environment. Returns its Python.
fn make_environment(folder: &str, options: &[&str]) -> Result<PathBuf, String> {
    let system = which("python3").ok_or("there is no python3")?;
    let folder = root().join(folder);
    let mut venv = Command::new(system);
    command::run(venv.args(["-m", "venv"]).args(options).arg(&folder))?;
    Ok(folder.join("bin/python"))
}

fn install(python: &Path, options: &[&str], packages: &[&str]) -> Result<(), String> {
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    command::run(Command::new(python).args(pip).args(options).args(packages))
}

/// Returns the one wheel of a folder.
fn wheel(folder: &Path) -> Result<String, String> {
    let entries = fs::read_dir(folder)
        .map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    let wheels = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheels: Vec<_> = wheels.map(|path| path.display().to_string()).collect();
    match &wheels[..] {
        [wheel] => Ok(wheel.clone()),
        _ => Err(format!("{} wheels were built", wheels.len())),
    }
}
