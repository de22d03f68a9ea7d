//! `cargo xtask check recipes`: builds and runs programs that combine redlatch with other crates.

use super::{
    no_arguments,
    package::{cargo_in, lint},
};
use crate::{command, steps::Steps};

/// Runs the check.
pub(super) fn run(args: &[String], steps: &mut Steps) -> Result<(), String> {
    no_arguments(args)?;
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::command::root;

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
