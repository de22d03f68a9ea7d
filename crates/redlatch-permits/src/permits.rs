//! The handle of a permit-expirable semaphore.

use std::{fmt, time::Duration};

use redlatch_core::{
    Client, Error, ErrorKind, LossCause,
    family::{Lease, Renewed},
};
use redlatch_pool::{Flavour, Pool, SetPermits, Totals, TrySetPermits, Verdict};

use crate::{
    AcquireId, AcquireIds, PermitHolder, PermitId, TryAcquireId, TryAcquireIdFor, TryAcquireIds,
    TryAcquireIdsFor, inspect,
};

/// A semaphore under one name whose permits have an id and a lease, shared by all processes that use the same server and prefix.
///
/// The handle is cheap to make and to clone and does no I/O. A name that is not allowed is told by the first call that talks to the server.
///
/// * **A permit** is an id, [`PermitId`], that belongs to nobody: whoever has it, in whatever process, can extend the permit, look at it, and give it back. Nothing renews it: it ends with its
///   lease, and whoever works under it has to finish, or extend it, well before that by its own clock.
/// * **How many** there are is set on the server, by [`set_permits`](Self::set_permits), or by the first acquisition over a handle that [names a number](Self::permits_if_unset). If
///   nobody has, acquiring fails with `NotSet` instead of waiting for ever.
/// * **Order**: first come, first served, over all clients, by arrival at the server, also for those who want many at once.
/// * **Whoever dies** with an id leaves it to its lease.
/// * **Resizing** takes effect at once. Permits that are out stay out: lowered below what is out, none is given out until enough have come back, and waiters that need more than there are get
///   `OutOfRange`.
/// * **Failover, restarts without persistence, clocks that are set** can let more out than there are, and an empty server knows no number.
///
/// # Examples
///
/// `redlatch`'s `client.permit_expirable_semaphore(name)` makes one; without that crate:
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch_core::Error> {
/// use std::time::Duration;
/// use redlatch_core::{Client};
/// use redlatch_permits::{PermitExpirableSemaphore, PermitId};
///
/// let client = Client::connect("redis://localhost").await?;
/// let slots = PermitExpirableSemaphore::new(&client, "gpu-slots").permits_if_unset(4);
/// let id = slots.acquire().lease(Duration::from_secs(60)).await?;
/// let job = format!("{{\"permit\": \"{id}\"}}");
///
/// // Elsewhere, with what came in the job:
/// let id: PermitId = job[12..job.len() - 2].parse().expect("an id");
/// slots.extend(&id, Duration::from_secs(600)).await?;
/// println!("{}", slots.release(&id).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PermitExpirableSemaphore(Pool);

/// What became of a permit that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PermitRelease {
    /// It was out, and is back.
    Released,
    /// Its lease had run out before.
    Expired,
    /// The server knows nothing of it: its lease had run out, it was given back before, or it never was one of this semaphore.
    Unknown,
    /// The request had to be sent again, and the server no longer knows whether the first one found the permit.
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

    /// Acquires one permit, waiting until it can be had, and gives its id. Otherwise as [`acquire_many`](Self::acquire_many).
    pub fn acquire(&self) -> AcquireId {
        AcquireId::new(&self.0, 1)
    }

    /// Acquires `n` permits together, 1 to 1,000, waiting until they can be had and all who came before are served. Gives an id for each.
    ///
    /// Awaiting the returned builder does it: `permits.acquire_many(3).await?`, `permits.acquire().lease(d).await?`.
    ///
    /// The lease begins with the grant: counted from before the call it is over too early, and never too late. After a long wait read the clock and ask
    /// [`remaining`](Self::remaining), or [`extend`](Self::extend), and count from that reading.
    ///
    /// # Cost
    ///
    /// One command when there is room; two when it has to wait and is called once, and one every two seconds for all that wait in this client.
    ///
    /// # Errors
    ///
    /// Never for contention. At once: `NotSet` if nobody has set how many there are, `OutOfRange` if it is fewer than `n`, both also while it waits; `InvalidOption` for 0 permits and for
    /// more than 1,000; `InvalidName`, `InvalidLease`, `TooManyWaiters`, `WrongKind`, `ServerFull`, `Permission`, `Auth`, `Closed` (also when the client closes
    /// meanwhile), `Protocol`. After the client's patience without an answer: `Unavailable`, `NotEnoughReplicas`, or `OutcomeUnknown` when the server may have granted
    /// it; that grant is then given back in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it has given the ids, it leaves nothing: what was taken is given back in the background, and whoever is next is called. Once it has
    /// given them, they are the caller's, and nothing gives them back by itself but their lease.
    pub fn acquire_many(&self, n: u32) -> AcquireIds {
        AcquireIds::new(&self.0, n)
    }

    /// Acquires one permit if it can be had now. Otherwise as [`try_acquire_many`](Self::try_acquire_many).
    pub fn try_acquire(&self) -> TryAcquireId {
        TryAcquireId::new(&self.0, 1)
    }

    /// Acquires `n` permits, 1 to 1,000, if they can be had now without overtaking anybody; `None` if not.
    ///
    /// Gets one answer of the server; an answer that gets lost is asked for again, for as long as the client is patient. Errors and cancel safety as
    /// [`acquire_many`](Self::acquire_many). One command.
    pub fn try_acquire_many(&self, n: u32) -> TryAcquireIds {
        TryAcquireIds::new(&self.0, n)
    }

    /// Acquires one permit, waiting up to `wait`. Otherwise as [`try_acquire_many_for`](Self::try_acquire_many_for).
    pub fn try_acquire_for(&self, wait: Duration) -> TryAcquireIdFor {
        TryAcquireIdFor::new(&self.0, wait)
    }

    /// Acquires `n` permits, 1 to 1,000, waiting up to `wait`; `None` if they could not be had in that time.
    ///
    /// Ends at its time, whatever happens; if the server did not answer then, it is an error and not `None`. A `wait` of zero is
    /// [`try_acquire_many`](Self::try_acquire_many): it takes the time that one answer needs. Otherwise as [`acquire_many`](Self::acquire_many).
    pub fn try_acquire_many_for(&self, n: u32, wait: Duration) -> TryAcquireIdsFor {
        TryAcquireIdsFor::new(&self.0, n, wait)
    }

    /// Gives a permit back, whoever took it, and says what became of it. One command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `Permission`, `Auth`, `Closed`; `Unavailable`, or `OutcomeUnknown` when it may be back, if the server did not answer for as long as the
    /// client is patient. Giving it back again does no harm.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the permit may be back or not. Giving it back again does no harm.
    pub async fn release(&self, id: &PermitId) -> Result<PermitRelease, Error> {
        let all = self.release_all(std::slice::from_ref(id)).await?;
        Ok(all.first().copied().unwrap_or(PermitRelease::Unknown))
    }

    /// Gives permits back, each for itself: one answer per id, in their order. One that has expired keeps none of the others. One command for 256 ids.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release). Some may be back then; doing it again does no harm.
    ///
    /// # Cancel safety
    ///
    /// Dropped, some may be back; doing it again does no harm.
    pub async fn release_all(&self, ids: &[PermitId]) -> Result<Vec<PermitRelease>, Error> {
        let mut answers = Vec::with_capacity(ids.len());
        // Copies that may still come are rare; each such id is sent by itself.
        for ids in ids.chunk_by(|one, next| one.void().is_none() && next.void().is_none()) {
            let holds: Vec<_> = ids.iter().map(|id| id.hold().to_owned()).collect();
            let verdicts = self.0.end(&holds, ids[0].void()).await?;
            let answer = |(verdict, resent)| PermitRelease::of(verdict, resent);
            answers.extend(verdicts.into_iter().map(answer));
        }
        Ok(answers)
    }

    /// Makes a permit last at least `lease` from now: 50 ms to 365 days, whoever took it. Never shortens. One command. Whoever works under it counts `lease` from before the
    /// call.
    ///
    /// # Errors
    ///
    /// `Lost` if its lease had run out or the server knows nothing of it; `OutOfRange` if the semaphore ends before, which the permit then lasts to; `InvalidLease`,
    /// `InvalidName`, `Permission`, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown` when the server did not answer for as long as the client is patient: the lease
    /// is then what it was or longer.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the lease is what it was or longer.
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

    /// Returns how long a permit lasts if nobody extends it; `None` if it is over or the server knows nothing of it. One command. Count it from before the call: the answer was
    /// under way for a while.
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

    /// Sets how many permits there are, whatever it was before. Awaiting the returned builder does it, exactly once however often it has to be sent. One command.
    ///
    /// What that does to permits that are out and to waiters: see [`PermitExpirableSemaphore`].
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
    /// **Permits that are out are forgotten**, and whoever has their ids is not told. If somebody sets the semaphore while they are still used, more are out than there are.
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

    /// Returns the permits that are out, with what the clients that took them say about themselves. One command for 256 permits, and one for each client among them.
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
