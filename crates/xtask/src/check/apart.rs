//! Packages that are workspaces of their own, since they have heavy dependencies. Heavy checks
//! build them, into a folder of the workspace's target directory that they share.

use std::{path::PathBuf, process::Command};

use crate::{
    command::{self, cargo, root},
    steps::Steps,
};

/// `cargo xtask check databases`: runs the SQL statements of `redlatch-fence` in PostgreSQL and
/// MariaDB, which `tests/databases/run` starts.
pub(super) fn databases(_: &[String], steps: &mut Steps) -> Result<(), String> {
    let folder = "tests/databases";
    steps.run("lints", || lint(folder));
    steps.run("databases", || {
        let program = root().join(folder).join("run");
        command::run(Command::new(program).arg(target()))
    });
    Ok(())
}

/// `cargo xtask check recipes`: builds and runs programs that combine redlatch with other crates.
pub(super) fn recipes(_: &[String], steps: &mut Steps) -> Result<(), String> {
    steps.run("lints", || lint(FOLDER));
    for recipe in RECIPES {
        steps.run(recipe, || {
            let run = ["run", "--locked", "--bin", recipe];
            command::run(&mut cargo_in(FOLDER, &run))
        });
    }
    Ok(())
}

const FOLDER: &str = "examples/recipes";

const RECIPES: [&str; 6] = [
    "tokio_cron_scheduler",
    "apalis",
    "pools",
    "cancellation",
    "shutdown",
    "opentelemetry",
];

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
fn lint(folder: &str) -> Result<(), String> {
    command::run(&mut cargo_in(folder, &["fmt", "--check"]))?;
    let mut clippy = cargo_in(folder, &["clippy", "--locked", "--all-targets"]);
    command::run(clippy.args(["--", "--deny", "warnings"]))
}

/// The folder of all these packages' artifacts. Cargo removes nothing of one for another.
pub(super) fn target() -> PathBuf {
    root().join("target").join("apart")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    #[test]
    fn every_recipe_is_run() {
        let folder = root().join(FOLDER).join("src/bin");
        let files = fs::read_dir(folder).expect("the recipes");
        let names = files.map(|file| {
            let path = file.expect("a file").path();
            let stem = path.file_stem().expect("a name");
            stem.to_string_lossy().into_owned()
        });
        // `check databases` has a PostgreSQL for it.
        let names: BTreeSet<_> = names.filter(|name| name != "sqlx").collect();
        assert_eq!(names, RECIPES.map(str::to_owned).into());
    }
}
