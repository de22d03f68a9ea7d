//! `cargo xtask check book`: renders the book with mdBook.
//!
//! The gate follows its links, and compiles and runs its examples: they are doctests of
//! `redlatch-book`.

use std::{path::PathBuf, process::Command};

use super::no_arguments;
use crate::{
    command::{self, cargo, root},
    steps::Steps,
};

/// Runs the check.
pub(super) fn run(args: &[String], steps: &mut Steps) -> Result<(), String> {
    no_arguments(args)?;
    if let Some(program) = steps.run("mdbook", program) {
        steps.run("rendering", || {
            let mut render = Command::new(&program);
            render.current_dir(root()).args(["build", "docs/book"]);
            command::run(&mut render)
        });
    }
    Ok(())
}

/// Returns an mdBook: that of the `PATH`, or the one that this workspace has built, now or before.
fn program() -> Result<PathBuf, String> {
    let own = root().join("target/tools/bin/mdbook");
    for program in [PathBuf::from("mdbook"), own.clone()] {
        if command::output(Command::new(&program).arg("--version")).is_some() {
            return Ok(program);
        }
    }
    let mut install = cargo(&["install", "mdbook", "--locked", "--version", VERSION]);
    install.args(["--no-default-features", "--features", "search"]);
    command::run(install.args(["--root", "target/tools"]))?;
    Ok(own)
}

/// The version that is installed if there is none.
const VERSION: &str = "0.5.4";
