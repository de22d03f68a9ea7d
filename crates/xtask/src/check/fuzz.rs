//! `cargo xtask check fuzz`: runs each target of `fuzz` for a minute, from its corpus and from what
//! earlier runs have found.

use std::{fs, process::Command};

use super::apart::{cargo_in, target};
use crate::{
    command::{self, root},
    steps::Steps,
};

/// Runs the check.
pub(super) fn run(_: &[String], steps: &mut Steps) -> Result<(), String> {
    if command::output(fuzz().arg("--version")).is_none() {
        return Err(format!("a tool is missing: {INSTALL}"));
    }
    steps.run("lints", lint);
    for name in TARGETS {
        steps.run(name, || fuzz_one(name));
    }
    Ok(())
}

const TARGETS: [&str; 9] = [
    "addresses",
    "errors",
    "globs",
    "messages",
    "names",
    "recordings",
    "replies",
    "requests",
    "scripts",
];

const INSTALL: &str = "rustup toolchain install nightly && cargo install --locked cargo-fuzz";

/// Returns `cargo fuzz` of the nightly compiler, since a stable one counts no branches.
fn fuzz() -> Command {
    let mut fuzz = Command::new("rustup");
    fuzz.args(["run", "nightly", "cargo", "fuzz"]);
    fuzz.current_dir(root());
    fuzz
}

fn lint() -> Result<(), String> {
    command::run(&mut cargo_in("fuzz", &["fmt", "--check"]))?;
    let mut clippy = cargo_in("fuzz", &["clippy", "--locked"]);
    // The laws of the parsers exist only with it.
    clippy.env("RUSTFLAGS", "--cfg fuzzing");
    command::run(clippy.args(["--", "--deny", "warnings"]))
}

/// Runs a target for a minute. A fault ends it, and its input is printed.
fn fuzz_one(name: &str) -> Result<(), String> {
    let found = target().join("found").join(name);
    fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    let mut run = fuzz();
    // No code of ours is unsafe, so a sanitizer would find nothing.
    run.args(["run", "--sanitizer", "none", "--target-dir"]);
    run.arg(target().join("fuzz")).arg(name);
    run.arg(found).arg(root().join("fuzz/corpus").join(name));
    command::run(run.args(["--", "-max_total_time=60", "-max_len=1024", "-timeout=10"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_runs_and_has_a_corpus() {
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("a manifest");
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        for name in TARGETS {
            assert!(manifest.contains(&format!("\"fuzz_targets/{name}.rs\"")));
            assert!(root().join("fuzz/corpus").join(name).is_dir(), "{name}");
        }
    }
}
