//! The handle of a semaphore.

use std::time::Duration;

use redlatch_core::{Error, family::ReleaseReply};
use redlatch_pool::{
    AcquirePermits, Flavour, PermitHolder, Pool, TryAcquirePermits, TryAcquirePermitsFor,
};

use crate::SemaphorePermit;

/// A semaphore under one name: a number of leased permits, shared by all processes that use the
/// same server and prefix.
///
/// `Client::semaphore` creates a handle. Unlike with `tokio::sync::Semaphore`, permits can be lost,
/// each request can fail, and you [delete](Self::delete) the semaphore instead of closing it. Loss
/// is as with [`Lock`](../redlatch/struct.Lock.html). These points differ from a lock:
///
/// * **The number of permits** is set on the server, by [`set_permits`](Self::set_permits) or by
///   the first acquisition of a handle with a [default](Self::permits_if_unset). Without a number,
///   an acquisition fails with `NotSet` instead of waiting forever.
/// * **Order**: first come, first served, over all clients, by arrival at the server. Small
///   requests do not overtake a large one, since returned permits are reserved for the first
///   waiter. `try_acquire` does not overtake either. A caller does not wait if there are permits
///   for this caller and for all waiters before.
/// * **Re-entry**: none. Every acquisition counts, even within one task. Two callers that each hold
///   half of the permits and wait for more block each other.
/// * **A holder that dies** keeps its permits until their lease ends, 30 s by default. Then the
///   permits are available again.
/// * **Resizing** takes effect at once. Given-out permits stay valid. If the number falls below
///   them, no permit is given out until enough have come back. Waiters that need more than the
///   total get `OutOfRange`.
/// * **Failover**: a failover, a restart without persistence, or a server clock that is set can
///   give out more permits than there are. An empty server has no number of permits.
///
/// # Examples
///
/// Limit the concurrent requests to a service, over all processes:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let api = client.semaphore("partner-api").permits_if_unset(8);
/// let permit = api.acquire().await?;
/// println!("send the request: {} more at the same time", api.available_permits().await?);
/// # assert_eq!(api.available_permits().await?, 7);
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// Limit the open files of a shared volume, where a large job needs several permits at once:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let files = client.semaphore("volume:files").permits_if_unset(100);
/// let merge = files.acquire_many(64).await?;
/// assert!(files.try_acquire_many(64).await?.is_none(), "a second merge has to wait");
/// let copy = files.try_acquire_many(2).await?;
/// assert!(copy.is_some());
/// # drop(merge);
/// # Ok(())
/// # }
/// ```
///
/// Reject work that exceeds the limit:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let imports = client.semaphore("imports").permits_if_unset(1);
/// let running = imports.try_acquire().await?.expect("free");
/// let status = match imports.try_acquire().await? {
///     Some(_permit) => 202,
///     None => 429, // Too Many Requests
/// };
/// assert_eq!(status, 429);
/// # drop(running);
/// # Ok(())
/// # }
/// ```
#[doc(alias("RSemaphore", "getSemaphore", "limiter", "concurrency limit"))]
#[derive(Clone, Debug)]
pub struct Semaphore(Pool);

impl Semaphore {
    redlatch_pool::pool_handle!(FLAVOUR);

    /// Acquires one permit, and waits until one is available. Errors, cost and cancel safety as
    /// [`acquire_many`](Self::acquire_many).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let mails = client.semaphore("smtp").permits_if_unset(2);
    /// let send = async |to: &str| {
    ///     let _permit = mails.acquire().await?;
    ///     println!("two at a time: mail to {to}");
    ///     Ok::<_, redlatch::Error>(())
    /// };
    /// tokio::try_join!(send("ada"), send("bob"), send("eve"))?;
    /// # client.settled().await;
    /// assert_eq!(mails.available_permits().await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> AcquirePermits<SemaphorePermit> {
        self.acquire_many(1)
    }

    /// Acquires `n` permits together, and waits until they are available and all earlier waiters
    /// are served.
    ///
    /// Await the returned builder. The builder has options, such as
    /// [`lease`](AcquirePermits::lease), [`renewed_lease`](AcquirePermits::renewed_lease) and
    /// [`note`](AcquirePermits::note).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let memory = client.semaphore("gpu:memory:gb").permits_if_unset(24);
    /// let training = memory.acquire_many(16).note("training").await?;
    /// assert_eq!(memory.available_permits().await?, 8);
    /// assert_eq!(memory.holders().await?[0].permits, 16);
    /// training.release().await?; // all at once
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release, when permits are available and when a release gives
    /// the permits to a waiter. The first renewal of such a grant is due within 250 to 500 ms and
    /// costs one more command for a hold that lasts longer. One command more for a waiter that is
    /// called and asks, for example with [`whole_lease`](AcquirePermits::whole_lease). One every
    /// two seconds for all waiters of this client.
    ///
    /// # Errors
    ///
    /// `NotSet` if the number of permits is not set, and `OutOfRange` if the number is less than
    /// `n`, both also during the wait. `InvalidOption` if `n` is 0. Otherwise those of [every
    /// acquisition](Error#errors-of-every-acquisition). Too few permits are not an error.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. Granted permits are returned in the background, the
    /// next waiter is served, and the place in the queue is lost.
    pub fn acquire_many(&self, n: u32) -> AcquirePermits<SemaphorePermit> {
        self.0.acquire(n, SemaphorePermit::from)
    }

    /// Acquires one permit if one is available now. Otherwise as
    /// [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let exports = client.semaphore("exports").permits_if_unset(1);
    /// let first = exports.try_acquire().await?;
    /// assert!(first.is_some());
    /// assert!(exports.try_acquire().await?.is_none(), "refuse the second export");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire(&self) -> TryAcquirePermits<SemaphorePermit> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` permits if they are available now without overtaking a waiter. Returns `None`
    /// otherwise.
    ///
    /// Sends one request. If the answer is lost, the request is repeated within the client's
    /// `patience`. Errors and cancel safety as [`acquire_many`](Self::acquire_many). Costs one
    /// command, and one for the release.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let workers = client.semaphore("workers").permits_if_unset(4);
    /// // Take four workers if all are idle, and one otherwise.
    /// let team = match workers.try_acquire_many(4).await? {
    ///     Some(all) => all,
    ///     None => workers.acquire().await?,
    /// };
    /// assert_eq!(team.num_permits(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_many(&self, n: u32) -> TryAcquirePermits<SemaphorePermit> {
        self.0.try_acquire(n, SemaphorePermit::from)
    }

    /// Acquires one permit and waits up to `wait`. Otherwise as
    /// [`try_acquire_many_for`](Self::try_acquire_many_for).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let tables = client.semaphore("tables").permits_if_unset(1);
    /// let seated = tables.acquire().await?;
    /// let guest = tables.try_acquire_for(Duration::from_secs(30)).await?;
    /// assert!(guest.is_none(), "no table within 30 s");
    /// # drop(seated);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_for(&self, wait: Duration) -> TryAcquirePermitsFor<SemaphorePermit> {
        self.try_acquire_many_for(1, wait)
    }

    /// Acquires `n` permits and waits up to `wait`. Returns `None` if they did not become
    /// available.
    ///
    /// Ends after `wait` in any case. Without an answer of the server by then, the result is an
    /// error and not `None`. A `wait` of zero is [`try_acquire_many`](Self::try_acquire_many),
    /// which takes until the answer to one request. Otherwise as
    /// [`acquire_many`](Self::acquire_many).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let lanes = client.semaphore("lanes").permits_if_unset(4);
    /// let three = lanes.acquire_many(3).lease(Duration::from_secs(2)).await?;
    /// // The lease of the three ends within the wait.
    /// let two = lanes.try_acquire_many_for(2, Duration::from_secs(5)).await?;
    /// assert!(two.is_some());
    /// # drop(three);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_many_for(
        &self,
        n: u32,
        wait: Duration,
    ) -> TryAcquirePermitsFor<SemaphorePermit> {
        self.0.try_acquire_for(n, SemaphorePermit::from, wait)
    }

    redlatch_pool::pool_numbers! {
        /// **Given-out permits are forgotten.** Their guards are lost at their next renewal, or at
        /// their deadline. If you set the number again before that, more permits are out than the
        /// number allows.
        Semaphore
    }

    /// Returns the holders of permits, with the records of their clients. Costs one command per 256
    /// holders, and one per client among them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let api = client.semaphore("partner-api").permits_if_unset(8);
    /// let permit = api.acquire_many(2).note("sync").await?;
    /// for holder in api.holders().await? {
    ///     println!("{}: {} permits for {:?}", holder.id, holder.permits, holder.note);
    ///     # assert_eq!(holder.permits, 2);
    /// }
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn holders(&self) -> Result<Vec<PermitHolder>, Error> {
        self.0.holders(|_| true).await
    }

    /// Ends one hold of any owner by its [`id`](crate::PermitHolder::id), and gives its permits to
    /// others at once. Returns `true` if this call ended a hold whose lease was running. Costs one
    /// command.
    ///
    /// **The call breaks the limit by definition**, since the holder may still be working. The
    /// guard of the hold is lost at its next renewal, with the cause
    /// [`Forgotten`](redlatch_core::LossCause::Forgotten). A guard with a fixed lease is lost only
    /// at its deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let api = client.semaphore("partner-api").permits_if_unset(1);
    /// let stuck = api.acquire().await?;
    /// let holder = api.holders().await?.remove(0);
    /// assert!(api.revoke(&holder.id).await?);
    /// assert!(api.try_acquire().await?.is_some());
    /// # drop(stuck);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). After `OutcomeUnknown`, you may revoke
    /// the hold again.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the hold may have been ended or not.
    pub async fn revoke(&self, id: &str) -> Result<bool, Error> {
        let (ended, resent) = self.0.end(&[id.to_owned()], None).await?;
        Ok(match ended.first() {
            Some(ReleaseReply::Released(_)) => true,
            // The answer to an earlier copy of this request may have been lost.
            Some(ReleaseReply::Gone) => resent,
            _ => false,
        })
    }
}

const FLAVOUR: Flavour = Flavour {
    kind: "semaphore",
    stored: "semaphore:1",
    each: false,
};
