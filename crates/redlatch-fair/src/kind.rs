//! The fair lock as a kind of exclusive hold in the core.

use std::sync::LazyLock;

use redlatch_core::family::{Discipline, Kind};
use redlatch_lua::FAIR;

/// Every waiter has a place of its own in a queue on the server.
pub(crate) static FAIR_LOCK: LazyLock<Kind> = LazyLock::new(|| {
    let parts = &[QUEUE, LIVES];
    Kind::new(
        "fair_lock",
        "fair:1",
        Discipline::Queued,
        parts,
        &FAIR.exclusive,
    )
});

/// The part of a lock's key that lists its waiters in order.
const QUEUE: &str = "q";

/// The part that says until when their clients count as alive.
const LIVES: &str = "l";
