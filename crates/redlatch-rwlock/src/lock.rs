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

/// A read-write lock under one name, shared by all processes that use the same server and prefix:
/// many owners may read at a time, or one may write.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name.
///
/// * **Owners**: as with the plain lock, every acquisition has a fresh [`Owner`], unless the call
///   or a scope names one.
/// * **Re-entry**: a reader may read again, and a writer may write and read, at once and ahead of
///   all waiters. A reader that asks to write would wait for itself, and gets
///   [`ErrorKind::WouldDeadlock`]; begin with [`upgradable_read`](Self::upgradable_read) where the
///   data decides. A writer that also reads, and releases the write, is a reader from then on, as
///   after [`WriteGuard::downgrade`].
/// * **Order**: a waiting writer blocks new readers. When a write ends, the waiting readers go
///   before the next writer; they have 5 s to enter. Writers and upgradable readers are served in
///   order of arrival at the server. So a writer waits for the readers inside at its arrival, and
///   for one writer and one group of readers per writer before it. A reader waits for one writer at
///   most.
/// * **Upgradable reads**: one at a time, beside other readers. The upgrade goes before all waiting
///   writers and blocks new readers.
/// * **A reader that dies** holds until its own lease ends, 30 s by default, whatever other readers
///   do. The same is true of a writer, and the next holder can see that from
///   [`Held::is_after_abandonment`](redlatch_core::Held::is_after_abandonment). A waiter that dies
///   costs the others 5 s at most.
/// * **Loss**: a guard knows its own deadline. It reports a loss before the server can admit a
///   writer, even if the server is unreachable.
/// * **Failover, restarts without persistence, clocks that are set** can admit a writer beside
///   others. The later write has the greater token, unless the server lost its data and its clock
///   was set back.
///
/// Unlike `tokio::sync::RwLock`, the lock contains no data, a hold can be lost, and each request
/// can fail.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch::Error> {
/// use redlatch::Client;
///
/// let client = Client::connect("redis://localhost").await?;
/// let prices = client.read_write_lock("prices").class("cache");
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
    /// Creates a handle of the lock called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. The first call that would send a request reports an invalid name as
    /// `InvalidName`. A well-formed `{tag}` in the name is kept, so that names with that tag share
    /// a hash slot.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self {
            client: client.clone(),
            class: "".into(),
            names: Name::parse(name.as_ref()).map(|name| Names::new(client, &name)),
        }
    }

    /// Labels this handle's metrics and events with `class`, for example what the lock is for.
    /// Names are never used as labels.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.class = class.into();
        self
    }

    /// Acquires to read, and waits while another owner writes or a writer waits.
    ///
    /// Await the returned builder: `lock.read().await?`, `lock.read().lease(d).await?`.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release without contention. Otherwise three or four: queue,
    /// perhaps a re-check after the subscription to the broadcast channel, enter, release. In
    /// addition one every two seconds per client, which its first waiting reader sends for all. The
    /// cost of a command grows with the logarithm of the number of readers or waiters at most.
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
    /// The future may be dropped at any await. A grant is released in the background, and the place
    /// among the waiters is lost.
    pub fn read(&self) -> Acquire<ReadGuard> {
        Acquire::new(&self.client, self.hold(Way::Read))
    }

    /// Acquires to read if nobody writes and no writer waits. Returns `None` otherwise. Costs one
    /// command. Otherwise as [`read`](Self::read).
    pub fn try_read(&self) -> TryAcquire<ReadGuard> {
        TryAcquire::new(&self.client, self.hold(Way::Read))
    }

    /// Acquires to read, and waits up to `wait`. Returns `None` if that was impossible at each try.
    ///
    /// Ends after `wait` in any case. If the server did not answer by then, the result is an error
    /// and not `None`. A `wait` of zero is [`try_read`](Self::try_read). Otherwise as
    /// [`read`](Self::read).
    pub fn try_read_for(&self, wait: Duration) -> TryAcquireFor<ReadGuard> {
        TryAcquireFor::new(&self.client, self.hold(Way::Read), wait)
    }

    /// Acquires to write, and waits until nobody reads or writes and the turn has come.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release without contention. Otherwise three: queue, acquire
    /// after the notification, release. In addition one every two seconds per client, which its
    /// first waiting writer sends for all.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and `WouldDeadlock` at once if the owner holds the read lock. If it
    /// holds the upgradable one, this is its upgrade.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read); readers are no longer blocked.
    pub fn write(&self) -> Acquire<WriteGuard> {
        Acquire::new(&self.client, self.hold(Way::Write))
    }

    /// Acquires to write if nobody reads, writes or waits to. Returns `None` otherwise. Costs one
    /// command. Otherwise as [`write`](Self::write).
    pub fn try_write(&self) -> TryAcquire<WriteGuard> {
        TryAcquire::new(&self.client, self.hold(Way::Write))
    }

    /// Acquires to write, and waits up to `wait`. Returns `None` if that was impossible at each
    /// try. Otherwise as [`write`](Self::write) and [`try_read_for`](Self::try_read_for).
    pub fn try_write_for(&self, wait: Duration) -> TryAcquireFor<WriteGuard> {
        TryAcquireFor::new(&self.client, self.hold(Way::Write), wait)
    }

    /// Acquires to read with the right to become the writer. One owner at a time has that right;
    /// others may read beside it.
    ///
    /// Waits in one queue with the writers. If the owner has it already, or writes, this is a
    /// re-entry; the right lasts as long as any read guard of the owner.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and `WouldDeadlock` at once if the owner holds the read lock
    /// without that right.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    pub fn upgradable_read(&self) -> Acquire<UpgradableReadGuard> {
        Acquire::new(&self.client, self.hold(Way::Upgradable))
    }

    /// Acquires an upgradable read if nobody writes, has one or waits to. Returns `None` otherwise.
    /// Costs one command.
    pub fn try_upgradable_read(&self) -> TryAcquire<UpgradableReadGuard> {
        TryAcquire::new(&self.client, self.hold(Way::Upgradable))
    }

    /// Acquires an upgradable read, and waits up to `wait`. Returns `None` if that was impossible
    /// at each try.
    pub fn try_upgradable_read_for(&self, wait: Duration) -> TryAcquireFor<UpgradableReadGuard> {
        TryAcquireFor::new(&self.client, self.hold(Way::Upgradable), wait)
    }

    /// Returns the number of read guards of `owner`, as the server counts them; zero once its lease
    /// has ended. Costs one command.
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

    /// Returns the number of write guards of `owner`, as the server counts them; zero once its
    /// lease has ended. Costs one command.
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

    /// Returns the writer, the number of readers, the waiters, and the token of the last write.
    /// Costs one command. The result may be outdated on arrival.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind` for a name of another kind, `Permission`, `Auth`, `Closed`;
    /// `Unavailable` or `OutcomeUnknown` when the server did not answer within the client's
    /// `patience`.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn info(&self) -> Result<ReadWriteInfo, Error> {
        inspect::info(&self.client, self.names()?).await
    }

    /// Returns all holders, the writer first, then readers in order of their grants, with the
    /// descriptions of their clients.
    ///
    /// Costs one command, one per about 256 readers, and one per client that holds. Holders that
    /// come or go in the meantime may be missed.
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

    /// Ends holds of any owner: all, or [one](ForceEnd::holder). Await the returned builder.
    ///
    /// **This breaks exclusion by definition**: others are admitted at once, and the holder may
    /// still be at work. Guards of this client are told at once. Other guards with a renewed lease
    /// are told at their next renewal, and those with a fixed lease at their deadline, or when they
    /// extend. Use [`after_lease`](ForceEnd::after_lease) to forbid renewal instead, which keeps
    /// exclusion.
    pub fn force_release(&self) -> ForceEnd {
        ForceEnd::new(self)
    }

    /// Returns the name as it was given; `None` if it is invalid.
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
