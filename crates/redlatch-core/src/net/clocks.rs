//! What a client allows for clocks of servers that may take over from each other.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    base::{observe, sync::lock},
    protocol::{server_clock::whole_millis, server_clocks::ServerClocks, time::Moment},
    runtime::Address,
};

/// The differences that were seen between the clocks of a client's servers, and the allowance.
#[derive(Debug)]
pub(crate) struct Clocks {
    allowance: Duration,
    seen: Mutex<ServerClocks<Address>>,
    /// The largest difference that was seen of late, in ms.
    difference: AtomicU64,
}

impl Clocks {
    /// Starts with an allowance for differences that nobody has seen.
    pub(crate) const fn new(allowance: Duration) -> Self {
        Self {
            allowance,
            seen: Mutex::new(ServerClocks::new()),
            difference: AtomicU64::new(0),
        }
    }

    /// Returns by how much the clocks of two servers may differ: the allowance, or what was seen if
    /// that is more.
    pub(crate) fn allowance(&self) -> Duration {
        self.allowance.max(self.difference())
    }

    /// Returns the largest difference that was seen between two servers of late.
    pub(crate) fn difference(&self) -> Duration {
        Duration::from_millis(self.difference.load(Ordering::Relaxed))
    }

    /// Takes in that the server at `address`, asked at `sent`, answered `millis` at `received`.
    pub(super) fn read(&self, address: &Address, sent: Moment, received: Moment, millis: u64) {
        let mut seen = lock(&self.seen);
        let before = seen.difference();
        seen.read(address.clone(), sent, received, millis);
        let difference = seen.difference();
        self.difference
            .store(whole_millis(difference), Ordering::Relaxed);
        drop(seen);
        // Each reading tells a little more or less; that is no news.
        if difference.abs_diff(before) > before / 10 {
            observe::clocks_differ(difference, self.allowance);
        }
    }
}
