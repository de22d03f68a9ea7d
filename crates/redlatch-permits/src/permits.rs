//! The handle of a permit-expirable semaphore.

use std::{fmt, time::Duration};

use futures_util::future::join_all;
use redlatch_core::{
    Acquire, Error, ErrorKind, Held, Metadata, TryAcquire, TryAcquireFor,
    family::{Lease, ReleaseReply, Renewed},
};
use redlatch_pool::{CHUNK, Flavour, Pool};

use crate::PermitId;

/// A semaphore under one name whose permits have an id and a lease.
///
/// `Client::permit_expirable_semaphore` creates a handle. Any process that has the id of a permit
/// can extend, inspect and return the permit. The number of permits, the order, resizing and
/// failover are as with [`Semaphore`](../redlatch/struct.Semaphore.html). These points differ:
///
/// * **A permit** is a [`PermitId`] and not a guard. The permit is not renewed and ends with its
///   lease. A worker has to finish, or to extend the permit, well before that by its own clock.
/// * **A process that dies** with an id leaves the permit until its lease ends.
/// * **A waiter** costs one request more than with a semaphore, since a release does not grant a
///   permit with an id. The release calls the waiter.
///
/// # Examples
///
/// One process acquires a permit, and another one returns it:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// use std::time::Duration;
/// use redlatch::PermitId;
///
/// let slots = client.permit_expirable_semaphore("gpu-slots").permits_if_unset(4);
/// let id = slots.acquire().lease(Duration::from_secs(60)).await?;
/// let message = id.to_string(); // into the queue of the workers
///
/// // Elsewhere, in the worker:
/// let id: PermitId = message.parse().expect("an id");
/// slots.extend(&id, Duration::from_secs(600)).await?;
/// println!("done: {}", slots.release(&id).await?);
/// # assert_eq!(slots.available_permits().await?, 4);
/// # Ok(())
/// # }
/// ```
#[doc(alias("RPermitExpirableSemaphore", "getPermitExpirableSemaphore"))]
#[derive(Clone, Debug)]
pub struct PermitExpirableSemaphore(Pool);

/// The outcome of a returned permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PermitRelease {
    /// The permit was out, and is back.
    Released,
    /// The lease had already ended.
    Expired,
    /// The permit is unknown: its lease had ended, it was returned before, or it never belonged to
    /// this semaphore.
    Unknown,
    /// The request was sent again, and the server no longer knows whether the first one found the
    /// permit.
    Unconfirmed,
}

impl PermitRelease {
    const fn of(reply: ReleaseReply, resent: bool) -> Self {
        match reply {
            ReleaseReply::Released(_) | ReleaseReply::Already(_) => Self::Released,
            ReleaseReply::Expired => Self::Expired,
            _ if resent => Self::Unconfirmed,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for PermitRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "it is back",
            Self::Expired => "its lease had run out before",
            Self::Unknown => "the server knows nothing of it",
            Self::Unconfirmed => "sent again; the server no longer knows what the first one found",
        })
    }
}

impl PermitExpirableSemaphore {
    redlatch_pool::pool_handle!(FLAVOUR);

    /// Acquires one permit, waits until one is available, and returns its id. Otherwise as
    /// [`acquire_many`](Self::acquire_many).
    ///
    /// Without a `lease`, the permit has the client's default lease, which nothing renews. A `note`
    /// may be removed when the lease of the acquisition has ended, even if the permit was extended.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let slots = client.permit_expirable_semaphore("render").permits_if_unset(1);
    /// let lost = slots.acquire().lease(Duration::from_secs(30)).await?;
    /// // The worker dies, and its permit is available again when the lease ends.
    /// let next = slots.acquire().await?;
    /// assert_ne!(next, lost);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> AcquireId {
        self.0.acquire(1, id)
    }

    /// Acquires `n` permits together, 1 to 1,000. Waits until they are available and all earlier
    /// waiters are served. Returns an id for each.
    ///
    /// Await the returned builder. The builder has the options [`lease`](AcquireIds::lease),
    /// [`note`](AcquireIds::note) and [`strategy`](AcquireIds::strategy).
    ///
    /// The lease begins with the grant. To be safe, count the lease from before the call. After a
    /// long wait that count is too short. Then read the clock, call [`remaining`](Self::remaining)
    /// or [`extend`](Self::extend), and count from that reading.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let seats = client.permit_expirable_semaphore("flight:LH400").permits_if_unset(180);
    /// let family = seats.acquire_many(4).note("booking 4711").await?;
    /// assert_eq!(family.len(), 4);
    /// seats.release(&family[3]).await?; // each permit on its own
    /// assert_eq!(seats.available_permits().await?, 177);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// One command when permits are available. Two when the call waits and is called once, and one
    /// every two seconds for all waiters of this client. One command for the return.
    ///
    /// # Errors
    ///
    /// `NotSet` if the number of permits is not set, and `OutOfRange` if the number is less than
    /// `n`, both also during the wait. `InvalidOption` if `n` is 0 or more than 1,000. Otherwise
    /// those of [every acquisition](Error#errors-of-every-acquisition). Too few permits are not an
    /// error.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it has returned the ids, granted permits are returned in the
    /// background, and the next waiter is served. Afterwards only the caller or the lease returns
    /// the permits.
    pub fn acquire_many(&self, n: u32) -> AcquireIds {
        self.0.acquire(n, ids)
    }

    /// Acquires one permit if one is available now. Otherwise as
    /// [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let slots = client.permit_expirable_semaphore("transcode").permits_if_unset(1);
    /// let Some(id) = slots.try_acquire().await? else {
    ///     return Ok(()); // all slots are busy
    /// };
    /// assert!(slots.try_acquire().await?.is_none());
    /// slots.release(&id).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire(&self) -> TryAcquireId {
        self.0.try_acquire(1, id)
    }

    /// Acquires `n` permits, 1 to 1,000, if they are available now without overtaking a waiter.
    /// Returns `None` otherwise.
    ///
    /// Sends one request. If the answer is lost, the request is repeated within the client's
    /// `patience`. Errors and cancel safety as [`acquire_many`](Self::acquire_many). Costs one
    /// command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let seats = client.permit_expirable_semaphore("flight:LH400").permits_if_unset(180);
    /// let group = seats.try_acquire_many(179).await?.expect("an empty flight");
    /// assert!(seats.try_acquire_many(2).await?.is_none(), "two seats or none");
    /// assert!(seats.try_acquire_many(1).await?.is_some());
    /// # drop(group);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_many(&self, n: u32) -> TryAcquireIds {
        self.0.try_acquire(n, ids)
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
    /// let slots = client.permit_expirable_semaphore("transcode").permits_if_unset(1);
    /// let id = slots.acquire().lease(Duration::from_secs(60)).await?;
    /// let second = slots.try_acquire_for(Duration::from_secs(5)).await?;
    /// assert!(second.is_none());
    /// # drop(id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_for(&self, wait: Duration) -> TryAcquireIdFor {
        self.0.try_acquire_for(1, id, wait)
    }

    /// Acquires `n` permits, 1 to 1,000, and waits up to `wait`. Returns `None` if they did not
    /// become available.
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
    /// let gpus = client.permit_expirable_semaphore("gpus").permits_if_unset(8);
    /// let training = gpus.acquire_many(6).lease(Duration::from_secs(2)).await?;
    /// // The lease ends within the wait.
    /// let next = gpus.try_acquire_many_for(4, Duration::from_secs(5)).await?;
    /// assert_eq!(next.map(|ids| ids.len()), Some(4));
    /// # drop(training);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_many_for(&self, n: u32, wait: Duration) -> TryAcquireIdsFor {
        self.0.try_acquire_for(n, ids, wait)
    }

    /// Returns a permit to the semaphore, and reports the outcome. Any process that has the id may
    /// return the permit. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use std::time::Duration;
    /// use redlatch::permits::PermitRelease;
    ///
    /// let slots = client.permit_expirable_semaphore("gpu-slots").permits_if_unset(4);
    /// let id = slots.acquire().lease(Duration::from_secs(60)).await?;
    /// assert_eq!(slots.release(&id).await?, PermitRelease::Released);
    ///
    /// let late = slots.acquire().lease(Duration::from_secs(1)).await?;
    /// tokio::time::sleep(Duration::from_secs(2)).await;
    /// assert_ne!(slots.release(&late).await?, PermitRelease::Released, "the lease had ended");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). You may return the permit again after an
    /// error.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the permit may have been returned or not. You may return the permit again.
    pub async fn release(&self, id: &PermitId) -> Result<PermitRelease, Error> {
        let all = self.release_all(std::slice::from_ref(id)).await?;
        Ok(all.first().copied().unwrap_or(PermitRelease::Unknown))
    }

    /// Returns permits to the semaphore, each on its own, with one outcome per id in their order.
    /// An expired permit does not affect the others. Costs one command per 256 ids.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let slots = client.permit_expirable_semaphore("gpu-slots").permits_if_unset(4);
    /// let ids = slots.acquire_many(3).await?;
    /// slots.release(&ids[0]).await?;
    /// for (id, outcome) in ids.iter().zip(slots.release_all(&ids).await?) {
    ///     println!("{id}: {outcome}");
    /// }
    /// assert_eq!(slots.available_permits().await?, 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release). Some permits may have been returned then.
    ///
    /// # Cancel safety
    ///
    /// After a drop, some permits may have been returned. You may return all of them again.
    pub async fn release_all(&self, ids: &[PermitId]) -> Result<Vec<PermitRelease>, Error> {
        // Late copies are rare; each such id is sent by itself.
        let together = ids.chunk_by(|one, next| one.void().is_none() && next.void().is_none());
        let calls = together.flat_map(|ids| ids.chunks(CHUNK)).map(|ids| {
            let holds: Vec<_> = ids.iter().map(|id| id.hold.clone()).collect();
            let void = ids[0].void();
            async move { self.0.end(&holds, void).await }
        });
        // At the same time: one after another, each may take the client's patience.
        let mut answers = Vec::with_capacity(ids.len());
        for ended in join_all(calls).await {
            let (verdicts, resent) = ended?;
            let answer = |verdict| PermitRelease::of(verdict, resent);
            answers.extend(verdicts.into_iter().map(answer));
        }
        Ok(answers)
    }

    /// Extends a permit to at least `lease` from now: 50 ms to 365 days. Any process that has the
    /// id may extend the permit. Never shortens the lease. Costs one command. Count `lease` from
    /// before the call.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let slots = client.permit_expirable_semaphore("gpu-slots").permits_if_unset(4);
    /// let id = slots.acquire().lease(Duration::from_secs(10)).await?;
    /// for _chunk in 0..3 {
    ///     tokio::time::sleep(Duration::from_secs(8)).await; // work on a chunk
    ///     slots.extend(&id, Duration::from_secs(10)).await?;
    /// }
    /// assert!(slots.remaining(&id).await?.is_some(), "still held after 24 s");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Lost` if the lease had ended or the server does not know the permit. `OutOfRange` if the
    /// semaphore expires earlier. The permit lasts until then. `InvalidLease`. Otherwise those of
    /// [every call](Error#errors-of-every-call). After any other error than `Lost`, the lease is
    /// unchanged or longer.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the lease is unchanged or longer.
    #[doc(alias("renew", "updateLeaseTime"))]
    pub async fn extend(&self, id: &PermitId, lease: Duration) -> Result<(), Error> {
        let lease = Lease::fixed(lease)
            .map_err(|error| Error::new(ErrorKind::InvalidLease, error.to_string()))?;
        match self.0.extend(&id.hold, lease.span()).await? {
            Renewed::Renewed => Ok(()),
            Renewed::Ends(rest) => {
                let message = format!("the semaphore ends, and the permit with it, in {rest:?}");
                Err(Error::new(ErrorKind::OutOfRange, message))
            }
            Renewed::Lost(cause) => {
                let message = format!("the permit {id} is over: {cause}");
                Err(Error::new(ErrorKind::Lost(cause), message))
            }
            Renewed::Late => {
                let message = "the server got the extension too late; the lease is what it was";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// Returns the remaining lease of a permit. Returns `None` if the lease has ended or the permit
    /// is unknown. Costs one command. The answer takes time, so count the lease from before the
    /// call.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let slots = client.permit_expirable_semaphore("render").permits_if_unset(4);
    /// let id = slots.acquire().lease(Duration::from_secs(60)).await?;
    /// assert!(slots.remaining(&id).await? > Some(Duration::from_secs(50)));
    /// slots.release(&id).await?;
    /// assert_eq!(slots.remaining(&id).await?, None);
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
    pub async fn remaining(&self, id: &PermitId) -> Result<Option<Duration>, Error> {
        let all = self.0.remaining(std::slice::from_ref(&id.hold)).await?;
        Ok(all.first().copied().filter(|left| !left.is_zero()))
    }

    redlatch_pool::pool_numbers! {
        /// **Given-out permits are forgotten**, without a notice to the users of their ids. If you
        /// set the number again while they are in use, more permits are out than the number allows.
        PermitExpirableSemaphore
    }

    /// Returns the given-out permits, with the records of the clients that acquired them. Costs one
    /// command per 256 permits, and one per client among them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let slots = client.permit_expirable_semaphore("gpu-slots").permits_if_unset(4);
    /// let id = slots.acquire().note("training 7").await?;
    /// let holders = slots.holders().await?;
    /// assert_eq!(holders[0].id, id);
    /// assert_eq!(holders[0].note.as_deref(), Some("training 7"));
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
        // Another version may name its holds differently.
        let shown = |id: &str| id.parse::<PermitId>().is_ok();
        let holds = self.0.holders(shown).await?.into_iter();
        let holders = holds.filter_map(|hold| {
            Some(PermitHolder {
                id: hold.id.parse().ok()?,
                remaining: hold.remaining,
                metadata: hold.metadata,
                note: hold.note,
            })
        });
        Ok(holders.collect())
    }
}

/// A given-out permit, and the description of the client that took it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitHolder {
    /// Its id.
    pub id: PermitId,
    /// The remaining lease.
    pub remaining: Duration,
    /// Host, process and application of the client that took it; `None` if that client's record is
    /// gone.
    pub metadata: Option<Metadata>,
    /// Why it holds, if it has said so with `note`.
    pub note: Option<String>,
}

/// An acquisition of one permit that waits; await it. Gives its id.
pub type AcquireId = Acquire<PermitId>;

/// An acquisition of one permit that does not wait; await it. Gives `None` if none is available, or
/// others wait for it.
pub type TryAcquireId = TryAcquire<PermitId>;

/// An acquisition of one permit with a bounded wait; await it. Gives `None` if none was available
/// at each look.
pub type TryAcquireIdFor = TryAcquireFor<PermitId>;

/// An acquisition that waits; await it. Gives an id for each requested permit.
pub type AcquireIds = Acquire<Vec<PermitId>>;

/// An acquisition that does not wait; await it. Gives `None` if there are too few permits, or
/// others wait for them.
pub type TryAcquireIds = TryAcquire<Vec<PermitId>>;

/// An acquisition with a bounded wait; await it. Gives `None` if there were too few permits at each
/// look.
pub type TryAcquireIdsFor = TryAcquireFor<Vec<PermitId>>;

/// Returns the id of the one permit that was acquired.
fn id(held: Held) -> PermitId {
    let (attempt, void_by) = held.hand_over();
    PermitId::new(&attempt, 0, void_by)
}

/// Returns the ids of the permits that were acquired.
fn ids(held: Held) -> Vec<PermitId> {
    let units = held.units();
    let (attempt, void_by) = held.hand_over();
    let ids = (0..units).map(|at| PermitId::new(&attempt, at, void_by));
    ids.collect()
}

const FLAVOUR: Flavour = Flavour {
    kind: "permits",
    stored: "permits:1",
    each: true,
};
