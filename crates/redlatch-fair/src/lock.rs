//! The handle of a fair lock.

use std::{fmt, ops::Deref, time::Duration};

use redlatch_core::{
    Acquire, Client, Error, Lockable, Member, Owner, TryAcquire, TryAcquireFor,
    exclusive::{Exclusive, Locks},
    family::Internals,
};

use crate::{FairLockGuard, Waiters, kind::FAIR_LOCK, scripts::PositionScript};

/// A lock under one name, shared by all processes that use the same server and prefix, that is served in order of arrival.
///
/// The handle is cheap to make and to clone and does no I/O. A name that is not allowed is told by the first call that talks to the server.
///
/// * **Exclusion** is by [`Owner`](redlatch_core::Owner): every acquisition has a fresh one and excludes every other, also inside one process and one task.
/// * **Re-entry**: pass the owner of the hold, or work inside its scope. All guards of a hold share one lease and one token; the name is free
///   when the last is gone. A guard gives its hold up a little before the server does; an owner that acquires again in between is given the same
///   hold and token with the new guard, and the old guard stays lost.
/// * **Order**: that in which the first requests of waiters arrive at the server. A [`try_lock`](Self::try_lock) never overtakes somebody who waits.
///   A waiter's place is lost when its client is not heard of for 5 s, or when it does not come for 5 s after its turn was told; if it lives, it gets a
///   new place at the end. A server that loses its data loses the order, and the waiters queue again.
/// * **A waiter that dies** is passed over: the first in the queue costs the others 5 s at most, and all that died with it cost nothing more.
/// * **A holder that dies** holds until its lease ends, 30 s by default; the next holder can see that from
///   [`Held::is_after_abandonment`](redlatch_core::Held::is_after_abandonment).
/// * **Loss**: a guard knows its own deadline and tells of its end before the server can give the name away, also with the server gone.
/// * **Failover, restarts without persistence, clocks that are set** can make two holders; the later one has the greater token, unless
///   the server lost its data and has an earlier clock than before.
///
/// Unlike `tokio::sync::Mutex` it guards no data, holding it can end without your doing, and talking to the server can fail.
///
/// # Examples
///
/// `redlatch`'s `client.fair_lock(name)` makes one; without that crate:
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch_core::Error> {
/// use std::time::Duration;
/// use redlatch_core::{Client};
/// use redlatch_fair::FairLock;
///
/// let client = Client::connect("redis://localhost").await?;
/// let lock = FairLock::new(&client, "orders:42").class("orders");
/// let guard = lock.lock().await?;
/// println!("held with token {}", guard.token());
/// assert!(lock.try_lock_for(Duration::from_millis(50)).await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// What can be asked of it, whoever holds: see [`Exclusive`], to which it derefs.
#[derive(Clone)]
pub struct FairLock(Exclusive);

impl FairLock {
    /// Makes a handle of the lock called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. A name that is not allowed is told by the first call that would talk to the server, as `InvalidName`.
    /// A well-formed `{tag}` in the name is kept, so that names with that tag share a hash slot.
    pub fn new(client: &Client, name: &str) -> Self {
        Self(Exclusive::new(client, &FAIR_LOCK, name))
    }

    /// Labels this handle's metrics and events with `class`, for example what the lock is for. Names are never used as labels.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self(self.0.class(class))
    }

    /// Acquires the lock, waiting until it is free.
    ///
    /// Awaiting the returned builder does it: `lock.lock().await?`, `lock.lock().lease(d).await?`.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when the lock is free. With waiters three: to queue, to take it when called, to release; and one every two
    /// seconds per client, which its first waiter sends for all. None of them costs more in a long queue than the logarithm of its length.
    ///
    /// # Errors
    ///
    /// Never for contention. At once: `InvalidName`, `InvalidLease`, `ForeignOwner`, `TooManyWaiters`, `WrongKind`, `ServerFull`, `Permission`,
    /// `Auth`, `Closed` (also when the client closes meanwhile), `Protocol`. After the client's patience without an answer: `Unavailable`,
    /// `NotEnoughReplicas`, or `OutcomeUnknown` when the server may have granted it; that grant is then given back in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, it leaves nothing: what was taken is given back in the background, and its place
    /// in the queue is given up; if it had been called, the next one is.
    pub fn lock(&self) -> Acquire<FairLockGuard> {
        Acquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock if it is free now and nobody waits for it; `None` otherwise.
    ///
    /// Gets one answer of the server, past the waiters of this process; an answer that gets lost is asked for again, for as long as the client is patient.
    /// Errors and cancel safety as [`lock`](Self::lock). One command, and one for the release.
    pub fn try_lock(&self) -> TryAcquire<FairLockGuard> {
        TryAcquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock, waiting up to `wait`; `None` if its turn did not come.
    ///
    /// Ends at its time, whatever happens; if the server did not answer then, it is an error and not `None`. A `wait` of zero is
    /// [`try_lock`](Self::try_lock): it takes the time that one answer needs. Otherwise as [`lock`](Self::lock).
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<FairLockGuard> {
        TryAcquireFor::new(self.client(), self.primitive(), wait)
    }
}

impl FairLock {
    /// Lists who waits, those who came first first, with what their clients say about themselves: a stream that asks for 128 waiters at a time and for
    /// each client's record once.
    ///
    /// Waiters that come or go meanwhile may be missed; nobody comes twice.
    pub fn waiters(&self) -> Waiters {
        Waiters::new(&self.0)
    }

    /// Returns how many are before `owner`, which waits in this process; `None` if it does not wait. Costs one command.
    ///
    /// An upper bound: those who died are counted until somebody comes across them. If `owner` waits several times, the first counts.
    ///
    /// # Errors
    ///
    /// As [`info`](Exclusive::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn position(&self, owner: &Owner) -> Result<Option<u64>, Error> {
        let Some(address) = self.0.waiting(owner)? else {
            return Ok(None);
        };
        let script = PositionScript {
            key: self.0.key()?,
            address: &address,
        };
        PositionScript::decode(&self.client().query(&script.call()).await?)
    }
}

impl Lockable for FairLock {
    fn member(&self) -> Result<Member, Error> {
        self.0.member()
    }
}

impl Deref for FairLock {
    type Target = Exclusive;

    fn deref(&self) -> &Exclusive {
        &self.0
    }
}

impl fmt::Debug for FairLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairLock")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Finds the fair locks that somebody holds and whose name matches `pattern`; see [`Locks`].
pub fn fair_locks(client: &Client, pattern: &str) -> Locks {
    Locks::new(client, &FAIR_LOCK, pattern)
}
