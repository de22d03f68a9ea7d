//! The handle of a semaphore.

use std::{fmt, time::Duration};

use redlatch_core::Error;
use redlatch_pool::{
    AcquirePermits, Flavour, Pool, TryAcquirePermits, TryAcquirePermitsFor, Verdict,
};

use crate::{PermitHolder, SemaphorePermit, inspect};

/// A semaphore under one name, shared by all processes that use the same server and prefix.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name.
///
/// * **The number of permits** is set on the server, by [`set_permits`](Self::set_permits), or by
///   the first acquisition over a handle that [has a default](Self::permits_if_unset). If nobody
///   has set it, acquiring fails with `NotSet` instead of waiting for ever.
/// * **Order**: first come, first served, over all clients, by arrival at the server. Small
///   requests do not overtake a large one: returned permits are reserved for the first waiter.
///   `try_acquire` does not overtake either. A caller does not wait if there are permits for it and
///   for all before it.
/// * **Re-entry**: none. Every acquisition counts, even within one task. Two callers that each hold
///   half and then wait for more block each other.
/// * **A holder that dies** keeps its permits until their lease ends, 30 s by default. Then they
///   are given out again.
/// * **Loss**: a guard knows its own deadline. It reports a loss before the server can give the
///   permits to others, even if the server is unreachable.
/// * **Resizing** takes effect at once. Given-out permits stay valid. If the number falls below
///   them, none is given out until enough have come back. Waiters that need more than the total get
///   `OutOfRange`.
/// * **Failover, restarts without persistence, clocks that are set** can give out more permits than
///   there are, and an empty server has no number.
///
/// Unlike with `tokio::sync::Semaphore`, permits can be lost, each request can fail, and the
/// semaphore is not closed but [deleted](Self::delete).
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch::Error> {
/// use redlatch::Client;
///
/// let client = Client::connect("redis://localhost").await?;
/// let api = client.semaphore("partner-api").permits_if_unset(8);
/// let permit = api.acquire().await?;
/// println!("{} more can be had", api.available_permits().await?);
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore(Pool);

impl Semaphore {
    redlatch_pool::pool_handle!(FLAVOUR);

    /// Acquires one permit, and waits until one is available. As
    /// [`acquire_many`](Self::acquire_many).
    pub fn acquire(&self) -> AcquirePermits<SemaphorePermit> {
        self.acquire_many(1)
    }

    /// Acquires `n` permits together, and waits until they are available and all earlier waiters
    /// are served.
    ///
    /// Await the returned builder: `semaphore.acquire_many(3).await?`,
    /// `semaphore.acquire().renewed_lease(d).await?`.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when permits are available, and when a release gives
    /// the permits to a waiter. One more for an acquire that is notified and asks, for a hold that
    /// lasts for more than 250 to 500 ms after such a grant, and every two seconds for all waiters
    /// of this client.
    ///
    /// # Errors
    ///
    /// Never for contention. At once: `NotSet` if the number of permits is not set, `OutOfRange` if
    /// it is less than `n`, both also during the wait; `InvalidOption` for 0 permits;
    /// `InvalidName`, `InvalidLease`, `TooManyWaiters`, `WrongKind`, `ServerFull`, `Permission`,
    /// `Auth`, `Closed` (also when the client closes during the call), `Protocol`. After the
    /// client's `patience` without an answer: `Unavailable`, `NotEnoughReplicas`, or
    /// `OutcomeUnknown` when the server may have granted it; the grant is then released in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any await. Granted permits are returned in the background, the
    /// next waiter is notified, and the place in the queue is lost.
    pub fn acquire_many(&self, n: u32) -> AcquirePermits<SemaphorePermit> {
        AcquirePermits::new(&self.0, n)
    }

    /// Acquires one permit if one is available now. As
    /// [`try_acquire_many`](Self::try_acquire_many).
    pub fn try_acquire(&self) -> TryAcquirePermits<SemaphorePermit> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` permits if they are available now without overtaking a waiter. Returns `None`
    /// if not.
    ///
    /// Sends one request. A lost answer is requested again within the client's `patience`. Errors
    /// and cancel safety as [`acquire_many`](Self::acquire_many). Costs one command, and one for
    /// the release.
    pub fn try_acquire_many(&self, n: u32) -> TryAcquirePermits<SemaphorePermit> {
        TryAcquirePermits::new(&self.0, n)
    }

    /// Acquires one permit and waits up to `wait`. As
    /// [`try_acquire_many_for`](Self::try_acquire_many_for).
    pub fn try_acquire_for(&self, wait: Duration) -> TryAcquirePermitsFor<SemaphorePermit> {
        self.try_acquire_many_for(1, wait)
    }

    /// Acquires `n` permits and waits up to `wait`. Returns `None` if they did not become
    /// available.
    ///
    /// Ends after `wait` in any case. If the server did not answer by then, the result is an error
    /// and not `None`. A `wait` of zero is [`try_acquire_many`](Self::try_acquire_many), which
    /// takes until the answer to one request. Otherwise as [`acquire_many`](Self::acquire_many).
    pub fn try_acquire_many_for(
        &self,
        n: u32,
        wait: Duration,
    ) -> TryAcquirePermitsFor<SemaphorePermit> {
        TryAcquirePermitsFor::new(&self.0, n, wait)
    }

    redlatch_pool::pool_numbers! {
        /// **Given-out permits are forgotten.** Their guards learn of it at their next renewal, or
        /// at their deadline. If the number is set again before that, more permits are out than
        /// there are.
        Semaphore
    }

    /// Returns the holders of permits, with the descriptions of their clients. Costs one command
    /// per 256 holders, and one per client among them.
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

    /// Ends one hold by its [`id`](crate::PermitHolder::id), whoever has it, and gives its permits
    /// to others at once. Returns `true` if this call ended a hold whose lease was running. Costs
    /// one command.
    ///
    /// **This breaks the limit by definition**: the holder may still be at work. Its guard learns
    /// of it at its next renewal, with the cause [`Forgotten`](redlatch_core::LossCause::Forgotten);
    /// a fixed lease learns of it only at its deadline.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `Permission`, `Auth`, `Closed`; `Unavailable`, or `OutcomeUnknown` if it may
    /// have ended, when the server did not answer within the client's `patience`. Revoking it again
    /// does no harm.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the hold may have been ended or not.
    pub async fn revoke(&self, id: &str) -> Result<bool, Error> {
        let ended = self.0.end(&[id.to_owned()], None).await?;
        // The answer to an earlier copy of this request may have been lost.
        let ended = ended
            .first()
            .is_some_and(|(verdict, resent)| match verdict {
                Verdict::Released(_) => true,
                Verdict::Gone => *resent,
                Verdict::Already(_) | Verdict::Expired => false,
            });
        Ok(ended)
    }

    /// Returns the name as it was given; `None` if it is invalid.
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
