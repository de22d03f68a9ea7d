//! The allowance for differences between the clocks of servers that may replace each other.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    base::{
        observe,
        sync::{Mutex, lock},
    },
    protocol::{
        server_clock::{ServerClocks, whole_millis},
        time::Moment,
    },
    runtime::Address,
};

/// The measured differences between the clocks of a client's servers, and the configured allowance.
#[derive(Debug)]
pub(crate) struct Clocks {
    allowance: Duration,
    seen: Mutex<ServerClocks<Address>>,
    /// The largest recent difference in ms.
    difference: AtomicU64,
}

impl Clocks {
    /// Creates an empty record with an allowance for differences that were not measured.
    pub(crate) const fn new(allowance: Duration) -> Self {
        Self {
            allowance,
            seen: Mutex::new(ServerClocks::new()),
            difference: AtomicU64::new(0),
        }
    }

    /// Returns the assumed difference between two servers' clocks: the allowance, or the measured
    /// difference if that is larger.
    pub(crate) fn allowance(&self) -> Duration {
        self.allowance.max(self.difference())
    }

    /// Returns the largest recent difference between two servers.
    pub(crate) fn difference(&self) -> Duration {
        Duration::from_millis(self.difference.load(Ordering::Relaxed))
    }

    /// Records that the server at `address`, asked at `sent`, answered `millis` at `received`.
    pub(super) fn read(&self, address: &Address, sent: Moment, received: Moment, millis: u64) {
        let mut seen = lock(&self.seen);
        let before = seen.difference();
        seen.read(address.clone(), sent, received, millis);
        let difference = seen.difference();
        self.difference
            .store(whole_millis(difference), Ordering::Relaxed);
        drop(seen);
        // Each reading changes the difference a little, which is not worth a report.
        if difference.abs_diff(before) > before / 10 {
            observe::clocks_differ(difference, self.allowance);
        }
    }
}
