//! The client, which all handles and guards of one connection setting share.

use std::{sync::atomic::Ordering, time::Duration};

use crate::{Client, ClientBuilder, Error, Owner};

/// The sizes of a client's tables, for tests and diagnostics. All are zero when nothing is held,
/// waited for or in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tables {
    /// Holds with a live guard.
    pub holds: usize,
    /// Holds that the watchdog renews.
    pub renewals: usize,
    /// Acquisitions and watchers in progress.
    pub waiters: usize,
    /// Names with waiters.
    pub queues: usize,
    /// Listeners for notifications.
    pub listeners: usize,
    /// Unanswered releases and undos in the background.
    pub pending_releases: usize,
}

impl Client {
    /// Connects to `url` with the default options; see [`ClientBuilder::new`] for its form.
    ///
    /// # Errors
    ///
    /// The same as those of [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no connection behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        ClientBuilder::new(url).connect().await
    }

    /// Creates a builder for a client of `url`.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Creates an owner that several acquisitions of this client can share.
    ///
    /// Pass the owner to [`Acquire::owner`](crate::Acquire::owner), or open a [scope](Owner::scope)
    /// around the calls.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn transfer() {}
    /// # async fn example(client: redlatch::Client) {
    /// // All acquisitions in `transfer` have one owner, so they re-enter.
    /// client.owner().scope(transfer()).await;
    /// # }
    /// ```
    pub fn owner(&self) -> Owner {
        self.0.numbers.owner()
    }

    /// Changes user and password of the servers, from the next connection on. Use it for passwords
    /// that change while the client lives. Existing connections stay open. Does no I/O.
    pub fn set_credentials(&self, username: Option<&str>, password: Option<&str>) {
        self.net().router.change_credentials(username, password);
    }

    /// Returns the configured address of this client, without user and password.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Returns the number of the database that this client uses.
    pub fn database(&self) -> u32 {
        self.net().router.database()
    }

    /// Returns the largest difference that this client has seen between the wall clocks of two of
    /// its servers. The round-trip time limits the precision. Zero for one server. Does no I/O.
    ///
    /// See [`server_clock_allowance`](ClientBuilder::server_clock_allowance).
    pub fn server_clock_difference(&self) -> Duration {
        self.0.net.world.clocks.difference()
    }

    /// Returns the sizes of the tables at this instant.
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
