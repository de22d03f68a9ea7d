//! What a pool looks like from outside.

use std::time::Duration;

/// How many permits there are, as the server knows it. Stale as soon as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// How many there are.
    pub permits: u32,
    /// How many can be had; zero also while more are out than there are.
    pub available: u32,
    /// How many are out. More than there are after the number was lowered.
    pub acquired: u32,
    /// Waiters in the queue, of all clients; those that died are counted for a while.
    pub waiters: u64,
    /// How long it lasts until it ends by itself; `None` if it was given no time.
    pub remaining: Option<Duration>,
}

/// Permits that are out together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name, `<client>:<n>` with perhaps more after it.
    pub id: String,
    /// How many permits.
    pub permits: u32,
    /// How long they last if nobody extends or renews them.
    pub remaining: Duration,
}
