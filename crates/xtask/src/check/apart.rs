//! Packages that are workspaces of their own, since they have heavy dependencies. Heavy checks
//! build them, into a folder of the workspace's target directory that they share.

use crate::{command::script, steps::Steps};

/// `cargo xtask check databases`: runs the SQL statements of `redlatch-fence` in PostgreSQL and
/// MariaDB, which `tests/databases/run` starts.
pub(super) fn databases(steps: &mut Steps) {
    steps.run("lints", || script(["lint", "tests/databases"]));
    steps.run("databases", || script(["databases"]));
}

/// `cargo xtask check recipes`: builds and runs programs that combine redlatch with other crates.
pub(super) fn recipes(steps: &mut Steps) {
    steps.run("lints", || script(["lint", "examples/recipes"]));
    for recipe in RECIPES.split(' ') {
        steps.run(recipe, || script(["recipe", recipe]));
    }
}

const RECIPES: &str = "tokio_cron_scheduler apalis pools cancellation shutdown opentelemetry";

/// `cargo xtask check fuzz`: runs each target of `fuzz` for a minute, from its corpus and from what
/// earlier runs have found.
pub(super) fn fuzz(steps: &mut Steps) {
    steps.run("lints", || script(["lint", "fuzz"]));
    for name in TARGETS.split(' ') {
        steps.run(name, || script(["fuzz", name]));
    }
}

const TARGETS: &str = "addresses errors globs messages names recordings replies requests scripts";

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::command::root;

    #[test]
    fn every_recipe_is_run() {
        let folder = root().join("examples/recipes/src/bin");
        let files = fs::read_dir(folder).expect("the recipes");
        let names = files.map(|file| {
            let path = file.expect("a file").path();
            let stem = path.file_stem().expect("a name");
            stem.to_string_lossy().into_owned()
        });
        // `check databases` has a PostgreSQL for it.
        let names: BTreeSet<_> = names.filter(|name| name != "sqlx").collect();
        let run: BTreeSet<_> = RECIPES.split(' ').map(str::to_owned).collect();
        assert_eq!(names, run);
    }

    #[test]
    fn every_target_runs_and_has_a_corpus() {
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("a manifest");
        let (bins, targets) = (manifest.matches("[[bin]]"), TARGETS.split(' '));
        assert_eq!(bins.count(), targets.clone().count());
        for name in targets {
            assert!(manifest.contains(&format!("\"fuzz_targets/{name}.rs\"")));
            assert!(root().join("fuzz/corpus").join(name).is_dir(), "{name}");
        }
    }
}
