//! The programs of other libraries in `tests/peers/libraries`: built, and run beside
//! `redlatch-compat`. A library or a toolchain that cannot be had fails the step.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::command::{self, root, which};

/// Runs the libraries, or all of them if none is named: each name is held `rounds` times, and
/// `processes` are replaced one by one.
pub(crate) fn run(
    program: &Path,
    python: &Path,
    only: &[&str],
    [rounds, processes]: [&str; 2],
    servers: &str,
) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(["libraries", "--programs"]).arg(programs());
    command.arg("--python").arg(python);
    command.args(["--rounds", rounds, "--processes", processes]);
    for name in only {
        command.args(["--only", name]);
    }
    command::run(command.env("REDLATCH_TEST_SERVERS", servers))
}

/// Builds the program of redsync and redislock.
pub(crate) fn build_go() -> Result<(), String> {
    let go = which("go").ok_or("there is no go")?;
    let mut build = Command::new(go);
    build.current_dir(sources().join("go"));
    build.args(["build", "-mod=readonly", "-o"]);
    command::run(build.arg(programs().join("go/peer")).arg("."))
}

/// Installs node-redlock beside its program.
pub(crate) fn build_node() -> Result<(), String> {
    let npm = which("npm").ok_or("there is no npm")?;
    which("node").ok_or("there is no node")?;
    let folder = programs().join("node");
    let failed = |error| format!("{} cannot be filled: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    for file in ["package.json", "peer.js"] {
        fs::copy(sources().join("node").join(file), folder.join(file)).map_err(failed)?;
    }
    // The versions stand in `package.json`. A lock file would name the registry of this machine.
    let install = ["install", "--no-package-lock", "--no-audit", "--no-fund"];
    command::run(Command::new(npm).current_dir(&folder).args(install))
}

/// Builds the program of Redisson.
pub(crate) fn build_java() -> Result<(), String> {
    let mvn = which("mvn").ok_or("there is no mvn")?;
    which("java").ok_or("there is no java")?;
    let target = format!("-Dpeer.target={}", programs().join("java").display());
    let mut build = Command::new(mvn);
    build.current_dir(sources().join("java"));
    command::run(build.args(["--quiet", "--batch-mode", &target, "package"]))
}

fn sources() -> PathBuf {
    root().join("tests/peers/libraries")
}

/// Where the programs are built.
fn programs() -> PathBuf {
    root().join("target/peers")
}
