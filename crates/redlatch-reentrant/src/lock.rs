//! The handle of a plain lock.

use std::{fmt, ops::Deref, time::Duration};

use redlatch_core::{
    Acquire, Client, Error, Lockable, Member, TryAcquire, TryAcquireFor,
    exclusive::{Exclusive, Locks},
};

use crate::{LockGuard, kind::LOCK};

/// A reentrant lock under one name, shared by all processes that use the same server and prefix.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name.
///
/// * **Exclusion** is by [`Owner`](redlatch_core::Owner): every acquisition has a fresh owner and
///   excludes every other, even within one process and one task.
/// * **Re-entry**: pass the owner of the hold, or work inside its scope. All guards of a hold share
///   one lease and one token; the name is free when the last guard has gone. A guard gives its hold
///   up a little before the server does. An owner that acquires again in between gets the same hold
///   and token with a new guard; the old guard stays lost.
/// * **Order**: first come, first served within a client. Between clients, a new caller may be
///   faster than a waiter.
/// * **A holder that dies** holds until its lease ends, 30 s by default; the next holder can see
///   that from [`Held::is_after_abandonment`](redlatch_core::Held::is_after_abandonment).
/// * **Loss**: a guard knows its own deadline. It reports a loss before the server can give the
///   name away, even if the server is unreachable.
/// * **Failover, restarts without persistence, clocks that are set** can lead to two holders. The
///   later one has the greater token, unless the server lost its data and its clock was set back.
///
/// Unlike `tokio::sync::Mutex`, the lock contains no data, a hold can be lost, and each request can
/// fail.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch::Error> {
/// use std::time::Duration;
/// use redlatch::Client;
///
/// let client = Client::connect("redis://localhost").await?;
/// let lock = client.lock("orders:42").class("orders");
/// let guard = lock.lock().await?;
/// println!("held with token {}", guard.token());
/// assert!(lock.try_lock_for(Duration::from_millis(50)).await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// The lock derefs to [`Exclusive`], which has the methods to inspect it and to force a release.
#[derive(Clone)]
pub struct Lock(Exclusive);

impl Lock {
    /// Creates a handle of the lock called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. The first call that would send a request reports an invalid name as
    /// `InvalidName`. A well-formed `{tag}` in the name is kept, so that names with that tag share
    /// a hash slot.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self(Exclusive::new(client, &LOCK, name.as_ref()))
    }

    /// Labels this handle's metrics and events with `class`, for example what the lock is for.
    /// Names are never used as labels.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self(self.0.class(class))
    }

    /// Acquires the lock, waiting until it is free.
    ///
    /// Await the returned builder: `lock.lock().await?`, `lock.lock().lease(d).await?`.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when the lock is free. One more for each try that finds
    /// it held, and one every two seconds while it waits. Only the first waiter of a client sends
    /// requests.
    ///
    /// # Errors
    ///
    /// Never for contention. At once: `InvalidName`, `InvalidLease`, `ForeignOwner`,
    /// `TooManyWaiters`, `WrongKind`, `ServerFull`, `Permission`, `Auth`, `Closed` (also when the
    /// client closes during the call), `Protocol`. After the client's `patience` without an answer:
    /// `Unavailable`, `NotEnoughReplicas`, or `OutcomeUnknown` when the server may have granted it;
    /// the grant is then released in the background.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any await. A grant is released in the background, the next
    /// local waiter takes over, and the place among the waiters is lost.
    pub fn lock(&self) -> Acquire<LockGuard> {
        Acquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock if it is free now. Returns `None` if another owner has it.
    ///
    /// Sends one request, ahead of the waiters of this process. A lost answer is requested again
    /// within the client's `patience`. Errors and cancel safety as [`lock`](Self::lock). Costs one
    /// command, and one for the release.
    pub fn try_lock(&self) -> TryAcquire<LockGuard> {
        TryAcquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock and waits up to `wait`. Returns `None` if another owner had it at each
    /// try.
    ///
    /// Ends after `wait` in any case. If the server did not answer by then, the result is an error
    /// and not `None`. A `wait` of zero is [`try_lock`](Self::try_lock), which takes until the
    /// answer to one request. Otherwise as [`lock`](Self::lock).
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<LockGuard> {
        TryAcquireFor::new(self.client(), self.primitive(), wait)
    }
}

impl Deref for Lock {
    type Target = Exclusive;

    fn deref(&self) -> &Exclusive {
        &self.0
    }
}

impl Lockable for Lock {
    fn member(&self) -> Result<Member, Error> {
        self.0.member()
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Finds held plain locks whose name matches `pattern`; see [`Locks`].
pub fn locks(client: &Client, pattern: &str) -> Locks {
    Locks::new(client, &LOCK, pattern)
}
