//! The fair lock as a kind of exclusive hold in the core.

use redlatch_core::family::{Discipline, Kind};
use redlatch_lua::FAIR;

/// Every waiter has a place of its own in a queue on the server. The part `q` of a lock's key lists
/// its waiters in order, and `l` until when their clients count as alive.
pub(crate) static FAIR_LOCK: Kind = Kind::new(
    "fair_lock",
    "fair:1",
    Discipline::Queued,
    &["q", "l"],
    &FAIR.exclusive,
);
