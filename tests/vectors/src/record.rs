//! The calls that are recorded, one scene after another, as the files in `scenes` describe them.
//! [`Bed::play`] explains their language. Each scene begins below a line `== title`, and has a
//! server of its own. What comes before the first scene of a file is played in each.
//!
//! Clients are `a1` to `e5`, which keeps the vectors short: scripts do not read the ids of clients,
//! and real ones have 32 digits. The lease is 30 s and tokens are kept for 10 minutes, so that the
//! TTL of a hold is 630 s.

use crate::{Bed, Vector};

const EXCLUSIVE: &str = include_str!("../scenes/exclusive.txt");
const QUEUE: &str = include_str!("../scenes/queue.txt");
const FAIR: &str = include_str!("../scenes/fair.txt");
const ELECTION: &str = include_str!("../scenes/election.txt");

/// The kinds with one owner at a time, and their scenes.
const OWNED: [(&str, &[&str]); 4] = [
    ("reentrant", &[EXCLUSIVE]),
    ("fair", &[EXCLUSIVE, QUEUE, FAIR]),
    ("election", &[EXCLUSIVE, ELECTION]),
    ("fair_election", &[EXCLUSIVE, QUEUE]),
];

/// The scenes of other scripts.
const OTHERS: [&str; 9] = [
    include_str!("../scenes/core.txt"),
    include_str!("../scenes/latch.txt"),
    include_str!("../scenes/limit.txt"),
    include_str!("../scenes/once.txt"),
    include_str!("../scenes/fence.txt"),
    include_str!("../scenes/setnx.txt"),
    include_str!("../scenes/redisson.txt"),
    include_str!("../scenes/pool.txt"),
    include_str!("../scenes/rwlock.txt"),
];

/// Records all calls.
pub fn all() -> Vec<Vector> {
    let mut vectors = Vec::new();
    let (scripts, _) = EXCLUSIVE.split_once("\n== ").expect("a scene");
    let owned = OWNED.iter().flat_map(|(kind, files)| {
        let files = files.iter();
        files.map(move |file| (words(kind) + scripts, *file))
    });
    let others = OTHERS.iter().map(|file| (String::new(), *file));
    for (words, file) in owned.chain(others) {
        let (first, scenes) = file.split_once("\n== ").expect("a scene");
        for scene in scenes.split("\n== ") {
            let (_title, steps) = scene.split_once('\n').expect("a title");
            let mut bed = Bed::new();
            for steps in [words.as_str(), first, steps] {
                bed.play(steps);
            }
            vectors.extend(bed.finish());
        }
    }
    // Readers find the calls of one script together.
    vectors.sort_by(|a: &Vector, b: &Vector| a.script.cmp(&b.script));
    vectors
}

/// Defines a kind with one owner: its name, the address of its waiters, and the keys of each name.
fn words(kind: &str) -> String {
    let (parts, address) = match kind.starts_with("fair") {
        true => (&["q", "l"][..], "@$1:$3:$2"),
        false => (&["q"][..], "@$1:$3"),
    };
    let keys = ["m", "n", "o", "r"].map(|name| {
        let parts: String = parts.iter().map(|part| format!(" {name}:{part}")).collect();
        format!("define {name} {name}{parts}\n")
    });
    let keys = keys.concat();
    format!("{keys}define kind {kind}\ndefine address {address}\n")
}
