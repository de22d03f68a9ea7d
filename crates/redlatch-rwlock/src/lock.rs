//! The handle of a read-write lock.

use std::{fmt, sync::Arc, time::Duration};

use redlatch_core::{
    Acquire, Client, Error, ErrorKind, Owner, TryAcquire, TryAcquireFor,
    family::{Name, NameError, Primitive},
};

use crate::{
    ForceEnd, ReadGuard, ReadWriteHolder, ReadWriteInfo, UpgradableReadGuard, WriteGuard, inspect,
    kind::{Hold, Way},
    scripts::Names,
};

/// A read-write lock under one name, shared by all processes that use the same server and prefix: many owners may read at a time, or one may write.
///
/// The handle is cheap to make and to clone and does no I/O. A name that is not allowed is told by the first call that talks to the server.
///
/// * **Owners**: as with the plain lock, every acquisition has a fresh [`Owner`] unless one is given or a scope has one.
/// * **Re-entry**: who reads may read again, who writes may write and read, at once and whoever waits. Who reads and asks to write would wait for
///   itself, and gets [`ErrorKind::WouldDeadlock`]; begin with [`upgradable_read`](Self::upgradable_read) where a look decides. A writer that also
///   reads and releases the write is a reader from then on, as after [`WriteGuard::downgrade`].
/// * **Order**: a writer that waits holds back new readers. When a write ends, the readers that wait then go before the next writer; they have 5 s to
///   come. Writers are served in order of arrival at the server, and upgradable readers among them. So a writer waits for the readers inside when it came and
///   for one writer and one group of readers per writer before it, a reader for one writer at most.
/// * **Upgradable reads**: one at a time, beside other readers. Its upgrade goes before all waiting writers and holds back new readers.
/// * **A reader that dies** is in until its own lease ends, 30 s by default, whatever other readers do. So is a writer, and the next holder can see
///   that from [`Held::is_after_abandonment`](redlatch_core::Held::is_after_abandonment). A waiter that dies costs the others 5 s at most.
/// * **Loss**: a guard knows its own deadline and tells of its end before the server can let a writer in, also with the server gone.
/// * **Failover, restarts without persistence, clocks that are set** can let a writer in beside others; the later write has the greater token, unless
///   the server lost its data and has an earlier clock than before.
///
/// Unlike `tokio::sync::RwLock` it guards no data, holding it can end without your doing, and talking to the server can fail.
///
/// # Examples
///
/// `redlatch`'s `client.read_write_lock(name)` makes one; without that crate:
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch_core::Error> {
/// use redlatch_core::{Client};
/// use redlatch_rwlock::ReadWriteLock;
///
/// let client = Client::connect("redis://localhost").await?;
/// let prices = ReadWriteLock::new(&client, "prices").class("cache");
/// let writer = prices.write().await?;
/// // … rewrite, stamped with writer.token() …
/// let reader = writer.downgrade().await?;
/// // … use what was written; nobody can have changed it …
/// drop(reader);
///
/// let look = prices.upgradable_read().await?;
/// // … out of date? …
/// let writer = look.upgrade().await?;
/// // … nobody has written since the look …
/// writer.release().await?;
/// look.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReadWriteLock {
    client: Client,
    class: Arc<str>,
    names: Result<Names, NameError>,
}

impl ReadWriteLock {
    /// Makes a handle of the lock called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. A name that is not allowed is told by the first call that would talk to the server, as `InvalidName`.
    /// A well-formed `{tag}` in the name is kept, so that names with that tag share a hash slot.
    pub fn new(client: &Client, name: &str) -> Self {
        Self {
            client: client.clone(),
            class: "".into(),
            names: Name::parse(name).map(|name| Names::new(client, &name)),
        }
    }

    /// Labels this handle's metrics and events with `class`, for example what the lock is for. Names are never used as labels.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.class = class.into();
        self
    }

    /// Acquires to read, waiting while somebody writes or a writer waits.
    ///
    /// Awaiting the returned builder does it: `lock.read().await?`, `lock.read().lease(d).await?`.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when nobody is in the way. Else three or four: to queue, perhaps to look again once subscribed to what
    /// readers are told, to come in, to release; and one every two seconds per client, which its first waiting reader sends for all. None of them
    /// costs more than the logarithm of the number of readers or waiters.
    ///
    /// # Errors
    ///
    /// Never for contention. At once: `InvalidName`, `InvalidLease`, `ForeignOwner`, `TooManyWaiters`, `WrongKind`, `ServerFull`, `Permission`,
    /// `Auth`, `Closed` (also when the client closes meanwhile), `Protocol`. After the client's patience without an answer: `Unavailable`,
    /// `NotEnoughReplicas`, or `OutcomeUnknown` when the server may have granted it; that grant is then given back in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, it leaves nothing: what was taken is given back in the background, and its place among the waiters is lost.
    pub fn read(&self) -> Acquire<ReadGuard> {
        Acquire::new(&self.client, self.hold(Way::Read))
    }

    /// Acquires to read if nobody writes and no writer waits; `None` otherwise. One command. Otherwise as [`read`](Self::read).
    pub fn try_read(&self) -> TryAcquire<ReadGuard> {
        TryAcquire::new(&self.client, self.hold(Way::Read))
    }

    /// Acquires to read, waiting up to `wait`; `None` if somebody was in the way whenever this looked.
    ///
    /// Ends at its time, whatever happens; if the server did not answer then, it is an error and not `None`. A `wait` of zero is
    /// [`try_read`](Self::try_read). Otherwise as [`read`](Self::read).
    pub fn try_read_for(&self, wait: Duration) -> TryAcquireFor<ReadGuard> {
        TryAcquireFor::new(&self.client, self.hold(Way::Read), wait)
    }

    /// Acquires to write, waiting until nobody reads or writes and the turn has come.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when nobody is in the way. Else three: to queue, to come when called, to release; and one every two
    /// seconds per client, which its first waiting writer sends for all.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and `WouldDeadlock` at once if the owner holds the read lock. If it holds the upgradable one, this is its upgrade.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read); readers are held back no longer.
    pub fn write(&self) -> Acquire<WriteGuard> {
        Acquire::new(&self.client, self.hold(Way::Write))
    }

    /// Acquires to write if nobody reads, writes or waits to; `None` otherwise. One command. Otherwise as [`write`](Self::write).
    pub fn try_write(&self) -> TryAcquire<WriteGuard> {
        TryAcquire::new(&self.client, self.hold(Way::Write))
    }

    /// Acquires to write, waiting up to `wait`; `None` if somebody was in the way whenever this looked. Otherwise as [`write`](Self::write) and
    /// [`try_read_for`](Self::try_read_for).
    pub fn try_write_for(&self, wait: Duration) -> TryAcquireFor<WriteGuard> {
        TryAcquireFor::new(&self.client, self.hold(Way::Write), wait)
    }

    /// Acquires to read with the right to become the writer, which one owner at a time has; others may read beside it.
    ///
    /// Waits in one queue with the writers. If the owner has it already, or writes, this is a re-entry; the right lasts as long as any read guard of the owner.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and `WouldDeadlock` at once if the owner holds the read lock without that right.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    pub fn upgradable_read(&self) -> Acquire<UpgradableReadGuard> {
        Acquire::new(&self.client, self.hold(Way::Upgradable))
    }

    /// Acquires an upgradable read if nobody writes, has one or waits to; `None` otherwise. One command.
    pub fn try_upgradable_read(&self) -> TryAcquire<UpgradableReadGuard> {
        TryAcquire::new(&self.client, self.hold(Way::Upgradable))
    }

    /// Acquires an upgradable read, waiting up to `wait`; `None` if somebody was in the way whenever this looked.
    pub fn try_upgradable_read_for(&self, wait: Duration) -> TryAcquireFor<UpgradableReadGuard> {
        TryAcquireFor::new(&self.client, self.hold(Way::Upgradable), wait)
    }

    /// Returns how many read guards `owner` has, as the server counts them; zero once its lease has ended. Costs one command.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn read_count(&self, owner: &Owner) -> Result<u32, Error> {
        let found = inspect::look(&self.client, self.names()?, &owner.to_string()).await?;
        Ok(found.own_reads)
    }

    /// Returns how many write guards `owner` has, as the server counts them; zero once its lease has ended. Costs one command.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn write_count(&self, owner: &Owner) -> Result<u32, Error> {
        let found = inspect::look(&self.client, self.names()?, &owner.to_string()).await?;
        Ok(found.own_writes)
    }

    /// Returns who writes, how many read, who waits, and the token of the last write. Costs one command. Stale as soon as it is known.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind` for a name of another kind, `Permission`, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown` when the
    /// server did not answer for as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn info(&self) -> Result<ReadWriteInfo, Error> {
        inspect::info(&self.client, self.names()?).await
    }

    /// Returns all holders, the writer first, then readers in order of their grants, with what their clients say about themselves.
    ///
    /// Costs one command, one per about 256 readers, and one per client that holds. Who comes or goes meanwhile may be missed.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn holders(&self) -> Result<Vec<ReadWriteHolder>, Error> {
        inspect::holders(&self.client, self.names()?).await
    }

    /// Ends holds, whoever has them: all, or [one](ForceEnd::holder). Awaiting the returned builder does it.
    ///
    /// **This breaks exclusion by definition**: others are let in at once, and the holder may still be at work. If it is a hold of this very
    /// client, its guards are told at once. Otherwise a renewed hold is told at its next renewal, and one with a fixed lease only at
    /// its deadline, or when it extends. Use [`after_lease`](ForceEnd::after_lease) to forbid renewal instead, which breaks nothing.
    pub fn force_release(&self) -> ForceEnd {
        ForceEnd::new(self)
    }

    /// Returns the name as it was given; `None` if it is not allowed.
    pub fn name(&self) -> Option<&str> {
        self.names.as_ref().ok().map(|names| names.key.name())
    }

    pub(crate) fn hold(&self, way: Way) -> Result<Arc<dyn Primitive>, Error> {
        Ok(Arc::new(Hold {
            names: self.names()?.clone(),
            class: Arc::clone(&self.class),
            way,
        }))
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn names(&self) -> Result<&Names, Error> {
        self.names
            .as_ref()
            .map_err(|error| Error::new(ErrorKind::InvalidName, error.to_string()))
    }
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadWriteLock")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
