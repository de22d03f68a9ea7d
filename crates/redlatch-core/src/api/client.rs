//! The client: what all handles and guards of one connection setting share.

use std::{sync::atomic::Ordering, time::Duration};

use crate::{Client, ClientBuilder, Error, Owner};

/// What a client's tables hold, for tests and for the curious. All zero when nothing is held,
/// waited for or under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tables {
    /// Holds with a live guard.
    pub holds: usize,
    /// Holds that the watchdog renews.
    pub renewals: usize,
    /// Acquisitions and watchers under way.
    pub waiters: usize,
    /// Names that somebody waits for.
    pub queues: usize,
    /// Listeners for wakes.
    pub listeners: usize,
    /// Releases and undos in the background that are not answered.
    pub pending_releases: usize,
}

impl Client {
    /// Connects to `url` with the default options; see [`ClientBuilder::new`] for its form.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves no connection behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        ClientBuilder::new(url).connect().await
    }

    /// Starts to build a client for `url`.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Makes an owner that acquisitions of this client can share.
    pub fn owner(&self) -> Owner {
        self.0.numbers.owner()
    }

    /// Changes as whom servers are logged in to, from the next connection on: for passwords that
    /// change while the client lives. Connections that are up stay so. Does no I/O.
    pub fn set_credentials(&self, username: Option<&str>, password: Option<&str>) {
        self.net().router.change_credentials(username, password);
    }

    /// Returns where this client was told to connect to, without user and password.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Returns the number of the database it uses.
    pub fn database(&self) -> u32 {
        self.net().router.database()
    }

    /// Returns the largest difference that this client has seen between the wall clocks of two of
    /// its servers, as far as the time that answers take lets it tell. Zero for one server. Does
    /// no I/O.
    ///
    /// See [`server_clock_allowance`](ClientBuilder::server_clock_allowance).
    pub fn server_clock_difference(&self) -> Duration {
        self.0.net.world.clocks.difference()
    }

    /// Returns what the tables hold at this instant.
    pub fn tables(&self) -> Tables {
        Tables {
            holds: self.0.holds.len(),
            renewals: self.0.watchdog.len(),
            waiters: self.0.waiters.load(Ordering::Relaxed),
            queues: self.0.local_queues.len() + self.0.phase_watches.len(),
            listeners: self.0.net.hub.listeners() + self.0.net.wakes.listeners(),
            pending_releases: self.0.releaser.len(),
        }
    }
}
