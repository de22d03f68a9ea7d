//! The names of a run. There are few of them, so that many workers meet at each. All are known in
//! advance, so that a fault can list the names that it hits.

/// What the names of each kind begin with, and how many there are.
const KINDS: [(&str, usize); 14] = [
    ("lock", 4),
    ("kept", KEPT),
    ("fair", 3),
    ("rw", 3),
    ("semaphore", 2),
    ("permits", 2),
    ("durable", 2),
    ("red", 1),
    ("fenced", 1),
    ("checked", 1),
    ("latch", 2),
    ("limit", 2),
    ("once", 2),
    ("election", 2),
];

/// The names that are held for long, each by one worker.
pub(crate) const KEPT: usize = 6;

/// Returns `stem-0`, `stem-1`, … for the stem of a kind.
pub(crate) fn name(stem: &str, number: usize) -> String {
    format!("{stem}-{number}")
}

/// Returns what a name begins with.
pub(crate) fn stem(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// Returns all names.
pub(crate) fn all() -> Vec<String> {
    let of_kind = |(stem, count)| (0..count).map(move |at| name(stem, at));
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// Returns the number of names of a stem.
pub(crate) fn count(stem: &str) -> usize {
    let found = KINDS.iter().find(|(known, _)| *known == stem);
    found.map_or(0, |(_, count)| *count)
}

/// Tells whether a waiter for one name may depend on a waiter for the other: the names are the
/// same, or some workers acquire both together.
pub(crate) fn are_tied(one: &str, other: &str) -> bool {
    let taken_together = |name: &str| name.starts_with(TAKEN_TOGETHER);
    one == other || taken_together(one) && taken_together(other)
}

/// The prefix of the names of which some workers acquire several together.
const TAKEN_TOGETHER: &str = "lock-";
