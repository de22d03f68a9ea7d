//! The names of a run. There are few of them, so that many workers meet at each. All are known in
//! advance, so that a fault can list the names that it hits.

use crate::work::{KINDS, Kind};

/// Returns `stem-0`, `stem-1`, … for the stem of a kind.
pub(crate) fn name(stem: &str, number: usize) -> String {
    format!("{stem}-{number}")
}

/// Returns all names.
pub(crate) fn all() -> Vec<String> {
    let of_kind = |kind: &'static Kind| (0..kind.names).map(|at| name(kind.stem, at));
    KINDS.iter().flat_map(of_kind).collect()
}

/// Returns the number of names of a stem.
pub(crate) fn count(stem: &str) -> usize {
    let found = KINDS.iter().find(|kind| kind.stem == stem);
    found.map_or(0, |kind| kind.names)
}

/// Tells whether a waiter for one name may depend on a waiter for the other: the names are the
/// same, or some workers acquire both together.
pub(crate) fn are_tied(one: &str, other: &str) -> bool {
    let taken_together = |name: &str| name.starts_with(TAKEN_TOGETHER);
    one == other || taken_together(one) && taken_together(other)
}

/// The prefix of the names of which some workers acquire several together.
const TAKEN_TOGETHER: &str = "lock-";
