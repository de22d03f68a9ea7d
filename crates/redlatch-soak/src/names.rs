//! The names of a run. There are few of them, so that many workers meet at each. All are known in
//! advance, so that a fault can list the names that it hits.

/// Returns `stem-0`, `stem-1`, … for a stem of [`STEMS`].
pub(crate) fn name(stem: &str, number: usize) -> String {
    format!("{stem}-{number}")
}

/// Returns all names.
pub(crate) fn all() -> Vec<String> {
    let stems = STEMS.iter();
    stems
        .flat_map(|&(stem, count)| (0..count).map(move |at| name(stem, at)))
        .collect()
}

/// Returns the number of names of a stem.
pub(crate) fn count(stem: &str) -> usize {
    let found = STEMS.iter().find(|(known, _)| *known == stem);
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

/// The stems of the names, and the number of names of each.
pub(crate) const STEMS: &[(&str, usize)] = &[
    ("lock", 4),
    ("fair", 3),
    ("rw", 3),
    ("semaphore", 2),
    ("permits", 2),
    ("latch", 2),
    ("durable", 2),
    ("fenced", 1),
    ("checked", 1),
    ("red", 1),
];
