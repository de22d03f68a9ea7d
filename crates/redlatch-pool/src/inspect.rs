//! The state of a pool, as an observer sees it.

use std::time::Duration;

/// The numbers of permits, as the server knows them. The result may be outdated on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// The number of permits.
    pub permits: u32,
    /// The number available; also zero while more are out than there are.
    pub available: u32,
    /// The number given out; larger than the total after that was lowered.
    pub acquired: u32,
    /// Waiters in the queue, of all clients. Dead ones are counted for a while.
    pub waiters: u64,
    /// The remaining TTL; `None` if it has none.
    pub remaining: Option<Duration>,
}

/// Permits that were given out together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name, `<client>:<n>`, perhaps with a suffix.
    pub id: String,
    /// The number of permits.
    pub permits: u32,
    /// The remaining lease.
    pub remaining: Duration,
}
