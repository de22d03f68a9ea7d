//! The election's implementations of the core's `Kind`.

use std::sync::LazyLock;

use redlatch_core::family::{Discipline, Kind};
use redlatch_lua::{ELECTION, FAIR_ELECTION};

/// Any candidate may lead next.
pub(crate) static PLAIN: LazyLock<Kind> = LazyLock::new(|| {
    let discipline = Discipline::Barging;
    Kind::new(
        "election",
        "election:1",
        discipline,
        &["q"],
        &ELECTION.exclusive,
    )
});

/// Candidates lead in order.
pub(crate) static FAIR: LazyLock<Kind> = LazyLock::new(|| {
    let discipline = Discipline::Queued;
    Kind::new(
        "fair_election",
        "fair_election:1",
        discipline,
        &["q", "l"],
        &FAIR_ELECTION,
    )
});
