//! The names of a run. There are few, so that many meet, and none is ever new, so that a fault can
//! say which it hits.

/// Returns `stem-0`, `stem-1`, … of a stem that [`STEMS`] has.
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

/// Returns how many names there are of a stem.
pub(crate) fn count(stem: &str) -> usize {
    let found = STEMS.iter().find(|(known, _)| *known == stem);
    found.map_or(0, |(_, count)| *count)
}

/// Tells whether whoever waits for one of them may wait for whoever waits for the other: they are
/// the same, or some take both.
pub(crate) fn are_tied(one: &str, other: &str) -> bool {
    let taken_together = |name: &str| name.starts_with(TAKEN_TOGETHER);
    one == other || taken_together(one) && taken_together(other)
}

/// What names begin with that some take several of.
const TAKEN_TOGETHER: &str = "lock-";

/// What names begin with, and how many there are.
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
