//! The handle of a semaphore.

use std::{fmt, time::Duration};

use redlatch_core::{Client, Error};
use redlatch_pool::{
    AcquirePermits, Flavour, Pool, SetPermits, Totals, TryAcquirePermits, TryAcquirePermitsFor,
    TrySetPermits,
};

use crate::{PermitHolder, SemaphorePermit, inspect};

/// A semaphore under one name, shared by all processes that use the same server and prefix.
///
/// The handle is cheap to make and to clone and does no I/O. A name that is not allowed is told by the first call that talks to the server.
///
/// * **How many** permits there are is set on the server, by [`set_permits`](Self::set_permits), or by the first acquisition over a handle that
///   [names a number](Self::permits_if_unset). If nobody has, acquiring fails with `NotSet` instead of waiting for ever.
/// * **Order**: first come, first served, over all clients, by arrival at the server. Who needs many is not overtaken by those who need few: permits that come back are kept for
///   whoever is first. Nobody overtakes, `try_acquire` neither; but who fits beside all who came before is not made to wait for them.
/// * **Re-entry**: none. Every acquisition counts, also inside one task; two that each take half and then wait for more wait for each other.
/// * **A holder that dies** has its permits until their lease ends, 30 s by default; then they are given out again.
/// * **Loss**: a guard knows its own deadline and tells of its end before the server can give the permits to others, also with the server gone.
/// * **Resizing** takes effect at once. Permits that are out stay out: lowered below what is out, none is given out until enough have come back, and waiters that need more than there are get
///   `OutOfRange`.
/// * **Failover, restarts without persistence, clocks that are set** can let more out than there are, and an empty server knows no number.
///
/// Unlike `tokio::sync::Semaphore`, permits can be lost without your doing, talking to the server can fail, and it is not closed but [deleted](Self::delete).
///
/// # Examples
///
/// `redlatch`'s `client.semaphore(name)` makes one; without that crate:
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch_core::Error> {
/// use redlatch_core::{Client};
/// use redlatch_semaphore::Semaphore;
///
/// let client = Client::connect("redis://localhost").await?;
/// let api = Semaphore::new(&client, "partner-api").permits_if_unset(8);
/// let permit = api.acquire().await?;
/// println!("{} more can be had", api.available_permits().await?);
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore(Pool);

impl Semaphore {
    /// Makes a handle of the semaphore called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. A name that is not allowed is told by the first call that would talk to the server, as `InvalidName`.
    /// A well-formed `{tag}` in the name is kept, so that names with that tag share a hash slot.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Pool::new(client, FLAVOUR, name))
    }

    /// Labels this handle's metrics and events with `class`, for example what the semaphore is for. Names are never used as labels.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self(self.0.class(class))
    }

    /// Names how many permits there are if nobody has set it: the first acquisition over such a handle sets it. Costs nothing. A number that
    /// was set counts, whatever handles name.
    #[must_use]
    pub fn permits_if_unset(self, permits: u32) -> Self {
        Self(self.0.size(permits))
    }

    /// Acquires one permit, waiting until it can be had. As [`acquire_many`](Self::acquire_many).
    pub fn acquire(&self) -> AcquirePermits<SemaphorePermit> {
        self.acquire_many(1)
    }

    /// Acquires `n` permits together, waiting until they can be had and all who came before are served.
    ///
    /// Awaiting the returned builder does it: `semaphore.acquire_many(3).await?`, `semaphore.acquire().renewed_lease(d).await?`.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when there is room; two for an acquire that has to wait and is called once, and one every two seconds for all that wait in
    /// this client.
    ///
    /// # Errors
    ///
    /// Never for contention. At once: `NotSet` if nobody has set how many there are, `OutOfRange` if it is fewer than `n`, both also while it waits; `InvalidOption` for 0 permits;
    /// `InvalidName`, `InvalidLease`, `TooManyWaiters`, `WrongKind`, `ServerFull`, `Permission`, `Auth`, `Closed` (also when the client closes meanwhile), `Protocol`. After the
    /// client's patience without an answer: `Unavailable`, `NotEnoughReplicas`, or `OutcomeUnknown` when the server may have granted it; that grant is
    /// then given back in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, it leaves nothing: what was taken is given back in the background, and whoever is next is called. Its place in the queue is lost.
    pub fn acquire_many(&self, n: u32) -> AcquirePermits<SemaphorePermit> {
        AcquirePermits::new(&self.0, n)
    }

    /// Acquires one permit if it can be had now. As [`try_acquire_many`](Self::try_acquire_many).
    pub fn try_acquire(&self) -> TryAcquirePermits<SemaphorePermit> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` permits if they can be had now without overtaking anybody; `None` if not.
    ///
    /// Gets one answer of the server; an answer that gets lost is asked for again, for as long as the client is patient. Errors and cancel safety as
    /// [`acquire_many`](Self::acquire_many). One command, and one for the release.
    pub fn try_acquire_many(&self, n: u32) -> TryAcquirePermits<SemaphorePermit> {
        TryAcquirePermits::new(&self.0, n)
    }

    /// Acquires one permit, waiting up to `wait`. As [`try_acquire_many_for`](Self::try_acquire_many_for).
    pub fn try_acquire_for(&self, wait: Duration) -> TryAcquirePermitsFor<SemaphorePermit> {
        self.try_acquire_many_for(1, wait)
    }

    /// Acquires `n` permits, waiting up to `wait`; `None` if they could not be had in that time.
    ///
    /// Ends at its time, whatever happens; if the server did not answer then, it is an error and not `None`. A `wait` of zero is
    /// [`try_acquire_many`](Self::try_acquire_many): it takes the time that one answer needs. Otherwise as [`acquire_many`](Self::acquire_many).
    pub fn try_acquire_many_for(
        &self,
        n: u32,
        wait: Duration,
    ) -> TryAcquirePermitsFor<SemaphorePermit> {
        TryAcquirePermitsFor::new(&self.0, n, wait)
    }

    /// Sets how many permits there are, whatever it was before. Awaiting the returned builder does it, exactly once however often it has to be sent. One command.
    ///
    /// What that does to permits that are out and to waiters: see [`Semaphore`].
    ///
    /// # Errors
    ///
    /// `InvalidName`, `InvalidOption`, `WrongKind`, `ServerFull`, `NotEnoughReplicas`, `Permission`, `Auth`, `Closed`; `Unavailable`, or `OutcomeUnknown` when it may be
    /// set, if the server did not answer for as long as the client is patient, 20 s at most.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may be set or not; if it was not sent yet it will not be, and if it was, it acts within 5 s or never.
    pub fn set_permits(&self, permits: u32) -> SetPermits {
        SetPermits::new(&self.0, permits)
    }

    /// Sets how many permits there are if nobody has; `false` if somebody had. Otherwise as [`set_permits`](Self::set_permits).
    pub fn try_set_permits(&self, permits: u32) -> TrySetPermits {
        TrySetPermits::new(&self.0, permits)
    }

    /// Adds `change` permits, or takes so many away if it is negative, exactly once; returns how many there are then. One command.
    ///
    /// # Errors
    ///
    /// `NotSet` if nobody has set how many there are; `OutOfRange` if there would be less than none or more than 4294967295. Otherwise as
    /// [`set_permits`](Self::set_permits); after `OutcomeUnknown`, adding again may add twice.
    ///
    /// # Cancel safety
    ///
    /// As [`set_permits`](Self::set_permits).
    pub async fn add_permits(&self, change: i64) -> Result<u32, Error> {
        self.0.add(change).await
    }

    /// Takes away all permits that can be had at this moment, exactly once, and returns how many those were: there are then as many as are out. One command, and more only
    /// after many leases have ended.
    ///
    /// # Errors
    ///
    /// As [`add_permits`](Self::add_permits).
    ///
    /// # Cancel safety
    ///
    /// As [`set_permits`](Self::set_permits).
    pub async fn drain_permits(&self) -> Result<u32, Error> {
        self.0.drain().await
    }

    /// Deletes the semaphore; `false` if nobody had set it. Waiters get `NotSet` at once. One command.
    ///
    /// **Permits that are out are forgotten**: their guards are told at their next renewal, or at their deadline. If somebody sets the semaphore before that, more are out than there are.
    ///
    /// # Errors
    ///
    /// As [`set_permits`](Self::set_permits).
    ///
    /// # Cancel safety
    ///
    /// As [`set_permits`](Self::set_permits).
    pub async fn delete(&self) -> Result<bool, Error> {
        self.0.delete().await
    }

    /// Returns how many permits could be had at this moment if nobody waited. As [`totals`](Self::totals).
    ///
    /// # Errors
    ///
    /// As [`totals`](Self::totals).
    ///
    /// # Cancel safety
    ///
    /// As [`totals`](Self::totals).
    pub async fn available_permits(&self) -> Result<u32, Error> {
        Ok(self.totals().await?.available)
    }

    /// Returns how many permits there are, those included that are out. As [`totals`](Self::totals).
    ///
    /// # Errors
    ///
    /// As [`totals`](Self::totals).
    ///
    /// # Cancel safety
    ///
    /// As [`totals`](Self::totals).
    pub async fn permits(&self) -> Result<u32, Error> {
        Ok(self.totals().await?.permits)
    }

    /// Returns how many permits there are, how many are out, and how many wait. Stale as soon as it is known.
    ///
    /// One command, and one more for every 64 holders whose lease has ended since somebody last looked.
    ///
    /// # Errors
    ///
    /// `NotSet` if nobody has set how many there are and the handle names no number; `InvalidName`, `WrongKind`, `Permission`, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown` when the
    /// server did not answer for as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// It only looks, and takes back what has ended.
    pub async fn totals(&self) -> Result<Totals, Error> {
        self.0.totals().await
    }

    /// Returns who has permits, with what their clients say about themselves. One command for 256 holders, and one for each client among them.
    ///
    /// # Errors
    ///
    /// As [`totals`](Self::totals), but not `NotSet`.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn holders(&self) -> Result<Vec<PermitHolder>, Error> {
        inspect::holders(&self.0).await
    }

    /// Returns the name as it was given; `None` if it is not allowed.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

const FLAVOUR: Flavour = Flavour {
    kind: "semaphore",
    stored: "semaphore:1",
    each: false,
};
