//! The election's implementations of the core's `Kind`.

use redlatch_core::family::{Discipline, Kind};
use redlatch_lua::{ELECTION, FAIR_ELECTION};

/// Any candidate may lead next.
pub(crate) static PLAIN: Kind = Kind::new(
    "election",
    "election:1",
    Discipline::Barging,
    &["q"],
    &ELECTION.exclusive,
);

/// Candidates lead in order.
pub(crate) static FAIR: Kind = Kind::new(
    "fair_election",
    "fair_election:1",
    Discipline::Queued,
    &["q", "l"],
    &FAIR_ELECTION,
);
