//! The handle of a permit-expirable semaphore.

use std::{fmt, time::Duration};

use redlatch_core::{
    Error, ErrorKind, LossCause,
    family::{Lease, Renewed},
};
use redlatch_pool::{Flavour, Pool, Verdict};

use crate::{
    AcquireId, AcquireIds, PermitHolder, PermitId, TryAcquireId, TryAcquireIdFor, TryAcquireIds,
    TryAcquireIdsFor, inspect,
};

/// A semaphore under one name whose permits have an id and a lease, shared by all processes that
/// use the same server and prefix.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name.
///
/// * **A permit** is an id, [`PermitId`]. Any process that has the id can extend, inspect and
///   return the permit. It is not renewed and ends with its lease. A worker has to finish, or
///   extend it, well before that by its own clock.
/// * **The number of permits** is set on the server, by [`set_permits`](Self::set_permits), or by
///   the first acquisition over a handle that [has a default](Self::permits_if_unset). If nobody
///   has set it, acquiring fails with `NotSet` instead of waiting for ever.
/// * **Order**: first come, first served, over all clients, by arrival at the server, also for
///   requests of many permits.
/// * **A process that dies** with an id leaves the permit to its lease.
/// * **Resizing** takes effect at once. Given-out permits stay valid. If the number falls below
///   them, none is given out until enough have come back. Waiters that need more than the total get
///   `OutOfRange`.
/// * **Failover, restarts without persistence, clocks that are set** can give out more permits than
///   there are, and an empty server has no number.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch::Error> {
/// use std::time::Duration;
/// use redlatch::{Client, PermitId};
///
/// let client = Client::connect("redis://localhost").await?;
/// let slots = client.permit_expirable_semaphore("gpu-slots").permits_if_unset(4);
/// let id = slots.acquire().lease(Duration::from_secs(60)).await?;
/// let job = format!("{{\"permit\": \"{id}\"}}");
///
/// // Elsewhere, with the id from the job:
/// let id: PermitId = job[12..job.len() - 2].parse().expect("an id");
/// slots.extend(&id, Duration::from_secs(600)).await?;
/// println!("{}", slots.release(&id).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
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
    const fn of(verdict: Verdict, resent: bool) -> Self {
        match verdict {
            Verdict::Released(_) | Verdict::Already(_) => Self::Released,
            Verdict::Expired => Self::Expired,
            Verdict::Gone if resent => Self::Unconfirmed,
            Verdict::Gone => Self::Unknown,
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
    pub fn acquire(&self) -> AcquireId {
        AcquireId::new(&self.0, 1)
    }

    /// Acquires `n` permits together, 1 to 1,000. Waits until they are available and all earlier
    /// waiters are served. Returns an id for each.
    ///
    /// Await the returned builder: `permits.acquire_many(3).await?`,
    /// `permits.acquire().lease(d).await?`.
    ///
    /// The lease begins with the grant. A count from before the call is safe, and too short by the
    /// wait. After a long wait, read the clock, call [`remaining`](Self::remaining) or
    /// [`extend`](Self::extend), and count from that reading.
    ///
    /// # Cost
    ///
    /// One command when permits are available. Two when the call waits and is notified once, and
    /// one every two seconds for all waiters of this client.
    ///
    /// # Errors
    ///
    /// Never for contention. At once: `NotSet` if the number of permits is not set, `OutOfRange` if
    /// it is less than `n`, both also during the wait; `InvalidOption` for 0 permits and for more
    /// than 1,000; `InvalidName`, `InvalidLease`, `TooManyWaiters`, `WrongKind`, `ServerFull`,
    /// `Permission`, `Auth`, `Closed` (also when the client closes during the call), `Protocol`.
    /// After the client's `patience` without an answer: `Unavailable`, `NotEnoughReplicas`, or
    /// `OutcomeUnknown` when the server may have granted it; the grant is then released in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it has returned the ids, granted permits are returned in the
    /// background, and the next waiter is notified. Afterwards the ids are the caller's, and only
    /// their lease returns them.
    pub fn acquire_many(&self, n: u32) -> AcquireIds {
        AcquireIds::new(&self.0, n)
    }

    /// Acquires one permit if one is available now. Otherwise as
    /// [`try_acquire_many`](Self::try_acquire_many).
    pub fn try_acquire(&self) -> TryAcquireId {
        TryAcquireId::new(&self.0, 1)
    }

    /// Acquires `n` permits, 1 to 1,000, if they are available now without overtaking a waiter.
    /// Returns `None` if not.
    ///
    /// Sends one request. A lost answer is requested again within the client's `patience`. Errors
    /// and cancel safety as [`acquire_many`](Self::acquire_many). One command.
    pub fn try_acquire_many(&self, n: u32) -> TryAcquireIds {
        TryAcquireIds::new(&self.0, n)
    }

    /// Acquires one permit and waits up to `wait`. Otherwise as
    /// [`try_acquire_many_for`](Self::try_acquire_many_for).
    pub fn try_acquire_for(&self, wait: Duration) -> TryAcquireIdFor {
        TryAcquireIdFor::new(&self.0, wait)
    }

    /// Acquires `n` permits, 1 to 1,000, and waits up to `wait`. Returns `None` if they did not
    /// become available.
    ///
    /// Ends after `wait` in any case. If the server did not answer by then, the result is an error
    /// and not `None`. A `wait` of zero is [`try_acquire_many`](Self::try_acquire_many), which
    /// takes until the answer to one request. Otherwise as [`acquire_many`](Self::acquire_many).
    pub fn try_acquire_many_for(&self, n: u32, wait: Duration) -> TryAcquireIdsFor {
        TryAcquireIdsFor::new(&self.0, n, wait)
    }

    /// Returns a permit to the semaphore, whoever took it, and reports the outcome. Costs one
    /// command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `Permission`, `Auth`, `Closed`; `Unavailable`, or `OutcomeUnknown` if it may
    /// be back, when the server did not answer within the client's `patience`. Returning it again
    /// does no harm.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the permit may be back or not. Returning it again does no harm.
    pub async fn release(&self, id: &PermitId) -> Result<PermitRelease, Error> {
        let all = self.release_all(std::slice::from_ref(id)).await?;
        Ok(all.first().copied().unwrap_or(PermitRelease::Unknown))
    }

    /// Returns permits to the semaphore, each by itself, with one outcome per id in their order. An
    /// expired one does not affect the others. Costs one command per 256 ids.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release). Some may be back then; a repeated call does no harm.
    ///
    /// # Cancel safety
    ///
    /// After a drop, some may be back; a repeated call does no harm.
    pub async fn release_all(&self, ids: &[PermitId]) -> Result<Vec<PermitRelease>, Error> {
        let mut answers = Vec::with_capacity(ids.len());
        // Late copies are rare; each such id is sent by itself.
        for ids in ids.chunk_by(|one, next| one.void().is_none() && next.void().is_none()) {
            let holds: Vec<_> = ids.iter().map(|id| id.hold().to_owned()).collect();
            let verdicts = self.0.end(&holds, ids[0].void()).await?;
            let answer = |(verdict, resent)| PermitRelease::of(verdict, resent);
            answers.extend(verdicts.into_iter().map(answer));
        }
        Ok(answers)
    }

    /// Extends a permit to at least `lease` from now, whoever took it: 50 ms to 365 days. Never
    /// shortens the lease. Costs one command. Count `lease` from before the call.
    ///
    /// # Errors
    ///
    /// `Lost` if its lease had ended or the server does not know it; `OutOfRange` if the semaphore
    /// expires earlier, and the permit lasts until then; `InvalidLease`, `InvalidName`,
    /// `Permission`, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown` when the server did not
    /// answer within the client's `patience`: the lease is then unchanged or longer.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the lease is unchanged or longer.
    pub async fn extend(&self, id: &PermitId, lease: Duration) -> Result<(), Error> {
        let lease = Lease::fixed(lease)
            .map_err(|error| Error::new(ErrorKind::InvalidLease, error.to_string()))?;
        let lost = |cause: LossCause| {
            let message = format!("the permit {id} is over: {cause}");
            Err(Error::new(ErrorKind::Lost(cause), message))
        };
        match self.0.extend(id.hold(), lease.span()).await? {
            Renewed::Renewed => Ok(()),
            Renewed::Ends(rest) => {
                let message = format!("the semaphore ends, and the permit with it, in {rest:?}");
                Err(Error::new(ErrorKind::OutOfRange, message))
            }
            Renewed::Lost(cause) => lost(cause),
            Renewed::Late => lost(LossCause::Unreachable),
        }
    }

    /// Returns the remaining lease of a permit. Returns `None` if it is over or unknown. Costs one
    /// command. Count it from before the call, since the answer takes time.
    ///
    /// # Errors
    ///
    /// As [`totals`](Self::totals), but not `NotSet`.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn remaining(&self, id: &PermitId) -> Result<Option<Duration>, Error> {
        let all = self.0.remaining(&[id.hold().to_owned()]).await?;
        Ok(all.first().copied().filter(|left| !left.is_zero()))
    }

    redlatch_pool::pool_numbers! {
        /// **Given-out permits are forgotten**, and the users of their ids are not told. If the
        /// number is set again while they are in use, more permits are out than there are.
        PermitExpirableSemaphore
    }

    /// Returns the given-out permits, with the descriptions of the clients that took them. Costs
    /// one command per 256 permits, and one per client among them.
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

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }
}

impl fmt::Debug for PermitExpirableSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitExpirableSemaphore")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

const FLAVOUR: Flavour = Flavour {
    kind: "permits",
    stored: "permits:1",
    each: true,
};
