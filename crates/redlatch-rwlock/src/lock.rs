//! The handle of a read-write lock, and forced ends of holds.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use redlatch_core::{
    Acquire, Client, Error, Lockable, Member, Owner, TryAcquire, TryAcquireFor, awaited,
    family::{Force, Handle, Internals, Primitive},
};

use crate::{
    ReadGuard, ReadWriteHolder, ReadWriteInfo, UpgradableReadGuard, WriteGuard, inspect,
    scripts::{self, Hold, Way},
};

/// A read-write lock under one name: many owners may read at a time, or one owner may write.
///
/// `Client::read_write_lock` creates a handle. Owners, loss and failover are as with
/// [`Lock`](../redlatch/struct.Lock.html). Unlike `tokio::sync::RwLock`, the lock contains no data,
/// a hold can be lost, and each request can fail. These points differ from a plain lock:
///
/// * **Re-entry**: a reader may read again, and a writer may write and read, at once and ahead of
///   all waiters. A reader that asks to write would wait for itself and gets
///   [`ErrorKind::WouldDeadlock`](redlatch_core::ErrorKind::WouldDeadlock). Begin with
///   [`upgradable_read`](Self::upgradable_read) where the data decides. A writer that also reads and
///   then releases the write is a reader, as after [`WriteGuard::downgrade`].
/// * **Order of writers**: by arrival at the server, together with upgradable readers. A waiting
///   writer blocks new readers. A writer waits for the readers that hold the lock at its arrival.
///   Each writer before it costs one write and one group of readers.
/// * **Order of readers**: when a write ends, the waiting readers enter before the next writer,
///   within 5 s. A reader waits for one writer at most.
/// * **Upgradable reads**: one at a time, together with plain readers. The upgrade goes before all
///   waiting writers and blocks new readers.
/// * **A holder that dies** keeps the lock until its own lease ends, whatever other readers do. The
///   guard after a dead writer returns true from
///   [`Held::is_after_abandonment`](redlatch_core::Held::is_after_abandonment). A waiter that dies
///   costs the others 5 s at most.
///
/// # Examples
///
/// Many readers and one writer:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let prices = client.read_write_lock("prices");
/// let one = prices.read().await?;
/// let two = prices.read().await?; // readers share
/// assert!(prices.try_write().await?.is_none());
///
/// drop((one, two));
/// let writer = prices.write().await?;
/// assert!(prices.try_read().await?.is_none(), "a writer excludes all");
/// # drop(writer);
/// # Ok(())
/// # }
/// ```
///
/// A reader that becomes the writer if the data is out of date:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let prices = client.read_write_lock("prices");
/// let look = prices.upgradable_read().await?;
/// let outdated = true; // … read the data …
/// if outdated {
///     let writer = look.upgrade().await?; // no other owner has written in between
///     println!("written with token {}", writer.token());
///     writer.release().await?;
/// }
/// look.release().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("rwlock", "RReadWriteLock", "getReadWriteLock", "shared lock"))]
#[derive(Clone, Debug)]
pub struct ReadWriteLock(pub(crate) Handle);

impl ReadWriteLock {
    /// Creates a handle of the lock called `name`, as `Client::read_write_lock` does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self(Handle::new(client, "read_write_lock", name.as_ref()))
    }

    /// Labels the metrics and events of this handle with `class`, for example with the purpose of
    /// the lock. Names are never used as labels.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self(self.0.class(class))
    }

    /// Acquires to read, and waits while another owner writes or a writer waits.
    ///
    /// Await the returned builder. The builder has options, such as [`lease`](Acquire::lease).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let config = client.read_write_lock("config");
    /// let (one, two) = tokio::try_join!(config.read(), config.read())?;
    /// assert_eq!(config.info().await?.readers, 2);
    /// assert_eq!(one.token(), two.token()); // no write in between: the same version
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release without contention. With contention three or four: one
    /// that queues, perhaps a check after the subscription to the broadcast channel, one that
    /// enters, and the release. One every two seconds per client, sent by its first waiting reader
    /// for all of them. The time of a command grows at most with the logarithm of the number of
    /// readers or waiters.
    ///
    /// # Errors
    ///
    /// Those of [every acquisition](Error#errors-of-every-acquisition). A lock that another owner
    /// holds is not an error.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. A grant is released in the background, and the place
    /// among the waiters is lost.
    #[doc(alias = "readLock")]
    pub fn read(&self) -> Acquire<ReadGuard> {
        Acquire::new(self.client(), self.hold(Way::Read))
    }

    /// Acquires to read if no owner writes and no writer waits. Returns `None` otherwise. Costs one
    /// command, and one for the release. Otherwise as [`read`](Self::read).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let index = client.read_write_lock("index");
    /// let writer = index.write().await?;
    /// if index.try_read().await?.is_none() {
    ///     println!("the index is being rebuilt: answer from the cache");
    /// }
    /// writer.release().await?;
    /// assert!(index.try_read().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_read(&self) -> TryAcquire<ReadGuard> {
        TryAcquire::new(self.client(), self.hold(Way::Read))
    }

    /// Acquires to read, and waits up to `wait`. Returns `None` if an owner wrote or a writer
    /// waited at each try.
    ///
    /// Ends after `wait` in any case. Without an answer of the server by then, the result is an
    /// error and not `None`. A `wait` of zero is [`try_read`](Self::try_read). Otherwise as
    /// [`read`](Self::read).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let index = client.read_write_lock("index");
    /// let writer = index.write().lease(Duration::from_secs(1)).await?;
    /// // The lease of the writer ends before the wait does.
    /// let reader = index.try_read_for(Duration::from_secs(5)).await?;
    /// assert!(reader.is_some());
    /// # drop(writer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_read_for(&self, wait: Duration) -> TryAcquireFor<ReadGuard> {
        TryAcquireFor::new(self.client(), self.hold(Way::Read), wait)
    }

    /// Acquires to write, and waits until no other owner reads or writes and the turn of this
    /// caller has come.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let first = prices.write().await?.token();
    /// let second = prices.write().await?.token();
    /// assert!(second > first, "store the token with the data, and refuse lower ones");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release, also with waiters: the request of a waiter queues it,
    /// and the release before grants the lock without a further request. The first renewal of such
    /// a grant is due within 250 to 500 ms and costs one more command for a hold that lasts longer.
    /// One command more for a writer that is called and asks, for example after a reader that died
    /// or with [`whole_lease`](Acquire::whole_lease). One every two seconds per client, sent by its
    /// first waiting writer for all of them.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and `WouldDeadlock` at once if the owner holds the read lock. If
    /// the owner holds the upgradable read lock, the call is its upgrade.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read). Readers are no longer blocked.
    #[doc(alias = "writeLock")]
    pub fn write(&self) -> Acquire<WriteGuard> {
        Acquire::new(self.client(), self.hold(Way::Write))
    }

    /// Acquires to write if no other owner reads, writes or waits to. Returns `None` otherwise.
    /// Costs one command, and one for the release. Otherwise as [`write`](Self::write).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let cache = client.read_write_lock("cache:42");
    /// // One process refreshes the entry. The others keep the old one.
    /// let refresh = cache.try_write().await?;
    /// assert!(refresh.is_some());
    /// assert!(cache.try_write().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_write(&self) -> TryAcquire<WriteGuard> {
        TryAcquire::new(self.client(), self.hold(Way::Write))
    }

    /// Acquires to write, and waits up to `wait`. Returns `None` if the turn of this caller did not
    /// come. Otherwise as [`write`](Self::write) and [`try_read_for`](Self::try_read_for).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let table = client.read_write_lock("table");
    /// let reader = table.read().await?;
    /// let writer = table.try_write_for(Duration::from_secs(2)).await?;
    /// assert!(writer.is_none(), "a reader has stayed");
    /// // Without the waiting writer, new readers enter.
    /// assert!(table.try_read().await?.is_some());
    /// # drop(reader);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_write_for(&self, wait: Duration) -> TryAcquireFor<WriteGuard> {
        TryAcquireFor::new(self.client(), self.hold(Way::Write), wait)
    }

    /// Acquires to read with the right to become the writer. One owner at a time has that right.
    /// Other owners may read at the same time.
    ///
    /// Waits in one queue with the writers. If the owner already has the right, or writes, the call
    /// is a re-entry. The right lasts as long as any read guard of the owner. Costs two commands
    /// for acquire and release without contention, otherwise three.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let account = client.read_write_lock("account:7");
    /// let look = account.upgradable_read().await?;
    /// assert!(account.try_read().await?.is_some());
    /// assert!(account.try_upgradable_read().await?.is_none());
    /// let writer = look.upgrade().await?;
    /// assert!(account.try_read().await?.is_none());
    /// # drop(writer);
    /// # Ok(())
    /// # }
    /// ```
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
        Acquire::new(self.client(), self.hold(Way::Upgradable))
    }

    /// Acquires an upgradable read if no other owner writes, has an upgradable read or waits for
    /// one of the two. Returns `None` otherwise. Costs one command, and one for the release.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let stock = client.read_write_lock("stock");
    /// let reader = stock.read().await?; // does not exclude an upgradable read
    /// let look = stock.try_upgradable_read().await?.expect("one at a time");
    /// assert!(look.try_upgrade().await?.is_none(), "the reader is still there");
    /// drop(reader);
    /// assert!(look.upgrade().await?.check().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_upgradable_read(&self) -> TryAcquire<UpgradableReadGuard> {
        TryAcquire::new(self.client(), self.hold(Way::Upgradable))
    }

    /// Acquires an upgradable read, and waits up to `wait`. Returns `None` if the turn of this
    /// caller did not come. Otherwise as [`upgradable_read`](Self::upgradable_read).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let stock = client.read_write_lock("stock");
    /// let look = stock.upgradable_read().await?;
    /// let second = stock.try_upgradable_read_for(Duration::from_secs(1)).await?;
    /// assert!(second.is_none());
    /// # drop(look);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_upgradable_read_for(&self, wait: Duration) -> TryAcquireFor<UpgradableReadGuard> {
        TryAcquireFor::new(self.client(), self.hold(Way::Upgradable), wait)
    }

    /// Returns the number of read guards of `owner`, as the server counts them. Returns zero once
    /// the lease has ended. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let outer = prices.read().await?;
    /// let inner = prices.read().owner(outer.owner()).await?;
    /// assert_eq!(prices.read_count(outer.owner()).await?, 2);
    /// assert_eq!(prices.write_count(outer.owner()).await?, 0);
    /// # drop(inner);
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
    pub async fn read_count(&self, owner: &Owner) -> Result<u32, Error> {
        let found = inspect::look(&self.0, &owner.to_string()).await?;
        Ok(found.own_reads)
    }

    /// Returns the number of write guards of `owner`, as the server counts them. Returns zero once
    /// the lease has ended. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let writer = prices.write().await?;
    /// let reader = prices.read().owner(writer.owner()).await?; // a writer may read
    /// assert_eq!(prices.write_count(writer.owner()).await?, 1);
    /// assert_eq!(prices.read_count(writer.owner()).await?, 1);
    /// # drop(reader);
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
    pub async fn write_count(&self, owner: &Owner) -> Result<u32, Error> {
        let found = inspect::look(&self.0, &owner.to_string()).await?;
        Ok(found.own_writes)
    }

    /// Returns the writer, the number of readers, the waiters, and the token of the last write.
    /// Costs one command. The result may be outdated on arrival.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let token = prices.write().await?.token();
    /// let reader = prices.read().await?;
    /// let info = prices.info().await?;
    /// assert!(info.writer.is_none() && info.readers == 1);
    /// assert_eq!(reader.token(), token); // the version that the reader sees
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
    pub async fn info(&self) -> Result<ReadWriteInfo, Error> {
        Ok(inspect::look(&self.0, "").await?.info)
    }

    /// Returns all holders with the records of their clients: the writer first, then the readers in
    /// the order of their grants.
    ///
    /// Costs one command, one per about 256 readers, and one per client that holds. The result may
    /// omit holders that come or go in the meantime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::Access;
    ///
    /// let prices = client.read_write_lock("prices");
    /// let reader = prices.read().note("invoice run").await?;
    /// let holders = prices.holders().await?;
    /// assert_eq!(holders[0].access, Access::Read);
    /// assert_eq!(holders[0].note.as_deref(), Some("invoice run"));
    /// # drop(reader);
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
    pub async fn holders(&self) -> Result<Vec<ReadWriteHolder>, Error> {
        inspect::holders(&self.0).await
    }

    /// Ends holds of any owner: all of them, or [one](ForceEnd::holder). Await the returned
    /// builder.
    ///
    /// **The call breaks exclusion by definition.** Other owners are admitted at once, while the
    /// holder may still be working. Guards of this client are lost at once. Other guards with a
    /// renewed lease are lost within a round trip, or at their next renewal. Guards with a fixed
    /// lease are lost at their deadline, or when they extend. To keep exclusion, forbid the renewal
    /// with [`after_lease`](ForceEnd::after_lease).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let reader = prices.read().await?; // hangs
    /// assert_eq!(prices.force_release().await?, 1);
    /// assert!(reader.check().is_err());
    /// assert!(prices.try_write().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "unlock")]
    pub fn force_release(&self) -> ForceEnd {
        ForceEnd {
            lock: self.clone(),
            holder: None,
            how: Force::Now,
        }
    }

    /// Returns the read side, as a member of a multi-lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (prices, report) = (client.read_write_lock("prices"), client.lock("report"));
    /// let guard = client.multi_lock(&[&prices.read_side(), &report]).lock().await?;
    /// assert!(prices.try_read().await?.is_some(), "others may read the prices");
    /// assert!(report.try_lock().await?.is_none());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_side(&self) -> ReadWriteSide {
        self.side(Way::Read)
    }

    /// Returns the write side, as a member of a multi-lock. The write side includes the read side:
    /// if both are members, only the write side is acquired.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (prices, report) = (client.read_write_lock("prices"), client.lock("report"));
    /// let guard = client.multi_lock(&[&prices.write_side(), &report]).lock().await?;
    /// assert!(prices.try_read().await?.is_none());
    /// assert!(guard.token("prices").is_some()); // the token of the write
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_side(&self) -> ReadWriteSide {
        self.side(Way::Write)
    }

    fn side(&self, way: Way) -> ReadWriteSide {
        ReadWriteSide {
            lock: self.clone(),
            way,
        }
    }

    /// Returns the name as it was given. Returns `None` if the name is invalid.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    pub(crate) fn hold(&self, way: Way) -> Result<Arc<dyn Primitive>, Error> {
        let identity = self.0.identity()?;
        Ok(Arc::new(Hold { identity, way }))
    }

    pub(crate) const fn client(&self) -> &Client {
        self.0.client()
    }
}

/// The read side or the write side of a read-write lock, as a member of a multi-lock.
/// [`ReadWriteLock::read_side`] and [`ReadWriteLock::write_side`] return a side.
///
/// The upgradable side cannot be a member. An upgrade waits for readers while the other members are
/// held, outside of the common order, and could deadlock. Take the write side, or upgrade before
/// you acquire the others.
#[derive(Clone, Debug)]
pub struct ReadWriteSide {
    lock: ReadWriteLock,
    way: Way,
}

impl Lockable for ReadWriteSide {
    fn member(&self) -> Result<Member, Error> {
        let side = self.lock.hold(self.way.clone())?;
        Ok(Member::new(self.lock.client(), side).side_of("read_write_lock"))
    }
}

/// A forced release. Await the builder. See [`ReadWriteLock::force_release`].
///
/// Returns the number of ended holds. Costs one command per hold, and those of
/// [`ReadWriteLock::holders`] unless you name one holder.
///
/// # Errors
///
/// Those of [every call](Error#errors-of-every-call).
///
/// # Cancel safety
///
/// After a drop, each hold may have been ended or not.
#[derive(Clone, Debug)]
#[must_use = "nothing is released until this is awaited"]
pub struct ForceEnd {
    pub(crate) lock: ReadWriteLock,
    pub(crate) holder: Option<ReadWriteHolder>,
    pub(crate) how: Force,
}

impl ForceEnd {
    /// Ends only this hold, and no later one of its owner. Default: all holds that the call finds.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let report = prices.read().note("report").await?; // hangs
    /// let export = prices.read().note("export").await?;
    /// let holders = prices.holders().await?;
    /// let hangs = holders.iter().find(|holder| holder.note.as_deref() == Some("report"));
    /// prices.force_release().holder(hangs.expect("the report reads")).await?;
    /// assert!(report.check().is_err() && export.check().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn holder(mut self, holder: &ReadWriteHolder) -> Self {
        self.holder = Some(holder.clone());
        self
    }

    /// Forbids renewal instead: each hold ends with its lease, and exclusion is kept.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let prices = client.read_write_lock("prices");
    /// let reader = prices.read().await?; // hangs
    /// prices.force_release().after_lease().await?;
    /// assert!(prices.try_write().await?.is_none(), "the reader still holds the lock");
    /// tokio::time::sleep(Duration::from_secs(31)).await; // longer than the lease
    /// assert!(prices.try_write().await?.is_some());
    /// # drop(reader);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn after_lease(mut self) -> Self {
        self.how = Force::AfterLease;
        self
    }

    async fn run(self) -> Result<usize, Error> {
        let (lock, ending) = (self.lock.0.clone(), self.end_all());
        lock.about(lock.client().within_patience(true, ending).await)
    }

    async fn end_all(self) -> Result<usize, Error> {
        let holders = match &self.holder {
            Some(holder) => vec![holder.clone()],
            None => inspect::list(&self.lock.0).await?,
        };
        let one = |holder: ReadWriteHolder| {
            let this = self.clone();
            async move { this.end(&holder).await }
        };
        let ended = stream::iter(holders).map(one).buffer_unordered(AT_ONCE);
        ended
            .try_fold(0, async |sum, ended| Ok(sum + usize::from(ended)))
            .await
    }

    async fn end(&self, holder: &ReadWriteHolder) -> Result<bool, Error> {
        let (lock, client) = (&self.lock.0, self.lock.client());
        let key = lock.key()?;
        let call = scripts::force(key, holder, self.how, client);
        let ended = lock.ask(call, scripts::forced).await?;
        if ended && self.how == Force::Now {
            client.revoked(key, holder.access.side(), holder.serial);
        }
        Ok(ended)
    }
}

awaited! {
    /// The number of holds that were ended.
    ForceEnd => usize;
}

/// Number of holds that are ended at the same time.
const AT_ONCE: usize = 64;
