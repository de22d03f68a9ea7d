//! Packages that are workspaces of their own, since they have heavy dependencies. Heavy checks
//! build them, into a folder of the workspace's target directory that they share.

use std::{path::PathBuf, process::Command};

use crate::command::{self, cargo, root};

/// Returns a cargo command for the package in `folder`.
pub(super) fn cargo_in(folder: &str, args: &[&str]) -> Command {
    let mut command = cargo(args);
    command.current_dir(root().join(folder));
    if args.first() != Some(&"fmt") {
        command.arg("--target-dir").arg(target());
    }
    command
}

/// Checks the format and the lints of the package in `folder`, as the gate does for members.
pub(super) fn lint(folder: &str) -> Result<(), String> {
    command::run(&mut cargo_in(folder, &["fmt", "--check"]))?;
    let mut clippy = cargo_in(folder, &["clippy", "--locked", "--all-targets"]);
    command::run(clippy.args(["--", "--deny", "warnings"]))
}

/// The folder of all these packages' artifacts. Cargo removes nothing of one for another.
pub(super) fn target() -> PathBuf {
    root().join("target").join("apart")
}
