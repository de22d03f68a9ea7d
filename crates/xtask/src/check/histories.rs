//! `cargo xtask check histories`: judges what the soak and the simulator recorded with the program
//! in `tests/histories`, which shares nothing with their checkers, and shows that the program
//! refuses planted faults.

use std::{fs, path::PathBuf, process::Command};

use crate::{
    command::{self, root, script},
    steps::Steps,
};

/// Runs the check.
pub(super) fn run(steps: &mut Steps) {
    let built = [
        steps.run("judge", || script(["judge"])),
        steps.run("soak", || script(["build-soak"])),
        steps.run("simulator", || script(["build-sim"])),
    ];
    if built.iter().any(Option::is_none) {
        return;
    }
    steps.run("planted overlaps", || {
        let files = fs::read_dir(root().join("tests/histories/testdata/refused"));
        let files = files.map_err(|error| error.to_string())?;
        let files: Vec<_> = files.flatten().map(|file| file.path()).collect();
        command::run(judge().arg("-refused").args(files))
    });
    steps.run("a million operations", || {
        let file = folder().join("million.jsonl");
        command::run(judge().args(["-make", "1000000"]).arg(&file))?;
        command::run(judge().arg(&file))
    });
    for topology in ["standalone", "replicated", "sentinel", "cluster"] {
        steps.run(topology, || soak(topology));
    }
    steps.run("the library in the simulator", simulate);
    for (kind, mutant) in MUTANTS {
        steps.run(mutant, || refuse(kind, mutant));
    }
}

/// Runs the soak for a minute, with the judge at its end.
fn soak(topology: &str) -> Result<(), String> {
    let minute = ["soak", "--minutes", "1", "--topology", topology];
    script([&minute[..], &["--seed", "1"]].concat())
}

/// Judges the histories of some hundred seeds of each kind.
fn simulate() -> Result<(), String> {
    let history = folder().join("simulator.jsonl");
    let file = history.to_string_lossy();
    script(["sim", "--seeds", "3000", "--history", &file])?;
    command::run(judge().arg(&history))
}

/// Demands that the histories of a planted fault are refused.
fn refuse(kind: &str, mutant: &str) -> Result<(), String> {
    let history = folder().join("simulator.jsonl");
    let file = history.to_string_lossy();
    let seeds = ["sim", "--seeds", "100", "--mutant", mutant];
    // The simulator finds the fault, too, and then fails.
    let found = script([&seeds[..], &["--history", &*file]].concat()).err();
    found.ok_or("the simulator did not find the fault")?;
    command::run(judge().arg("-refused").arg(&history))?;
    // `cargo xtask evidence` reads the line.
    println!("{kind} {mutant} found by judge");
    Ok(())
}

fn judge() -> Command {
    Command::new(folder().join("judge"))
}

fn folder() -> PathBuf {
    root().join("target/histories")
}

/// Planted faults that break P1, P2, P3 or P12, with their kinds. A few seeds show each.
const MUTANTS: [(&str, &str); 15] = [
    ("lock", "early-grant"),
    ("lock", "token-repeats"),
    ("lock", "reentry-not-counted"),
    ("lock", "ids-collide"),
    ("fair", "fair-granted-ahead-with-an-old-token"),
    ("rwlock", "rwlock-writer-beside-readers"),
    ("semaphore", "semaphore-one-too-many"),
    ("permits", "permits-one-too-many"),
    ("multi", "multi-takes-what-is-held"),
    ("red", "red-early-grant"),
    ("election", "election-early-grant"),
    ("election", "election-token-repeats"),
    ("election", "election-fence-open"),
    ("once", "once-token-repeats"),
    ("latch", "latch-opens-one-early"),
];
