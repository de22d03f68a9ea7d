//! `cargo xtask check recipes`: builds and runs programs that combine redlatch with other crates.

use super::{
    databases::POSTGRES,
    package::{cargo_in, lint},
};
use crate::{command, steps::Steps, suite::Verdict};

/// Runs the check.
pub(crate) fn run(args: &[String]) -> Result<Verdict, String> {
    if let Some(argument) = args.first() {
        return Err(format!("check recipes takes no arguments: {argument:?}"));
    }
    let mut steps = Steps::default();
    steps.run("lints", || lint(FOLDER));
    for recipe in RECIPES {
        steps.run(recipe, || {
            let mut run = cargo_in(FOLDER, &["run", "--locked", "--bin", recipe]);
            match recipe {
                "sqlx" => POSTGRES.with(|name, address| command::run(run.env(name, address))),
                _ => command::run(&mut run),
            }
        });
    }
    println!("\n{steps}");
    Ok(steps.verdict())
}

const FOLDER: &str = "examples/recipes";

const RECIPES: [&str; 7] = [
    "tokio_cron_scheduler",
    "apalis",
    "pools",
    "cancellation",
    "shutdown",
    "sqlx",
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
        let names: BTreeSet<_> = names.collect();
        assert_eq!(names, RECIPES.map(str::to_owned).into());
    }
}
