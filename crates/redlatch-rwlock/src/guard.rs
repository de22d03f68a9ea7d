//! The guards of a read-write lock.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Acquire, Error, ErrorKind, Held, Token, TryAcquire, TryAcquireFor,
    family::{AcquireOptions, Internals, OwnerChoice, Primitive, Wait},
    guards,
};

use crate::{ReadWriteLock, scripts::Way};

guards! {
    /// A read hold. Dropping the guard releases in the background. [`release`](Self::release) also
    /// returns the outcome.
    ///
    /// Drop, loss and exit are as with [`LockGuard`](../redlatch/struct.LockGuard.html). The guard
    /// derefs to [`Held`].
    #[doc(alias = "RwLockReadGuard")]
    ReadGuard;

    /// A read hold with the right to become the writer. One owner at a time has that right.
    ///
    /// Other owners may read at the same time, and no other owner can write. The data that this
    /// guard reads stays the same until the guard upgrades.
    UpgradableReadGuard;

    /// The write hold. Dropping the guard releases in the background. [`release`](Self::release)
    /// also returns the outcome.
    ///
    /// The [`token`](Held::token) is greater than the token of every write before. Drop, loss and
    /// exit are as with [`LockGuard`](../redlatch/struct.LockGuard.html).
    #[doc(alias = "RwLockWriteGuard")]
    WriteGuard;
}

impl ReadGuard {
    /// Returns the token of the last write before this guard was granted. No owner has written
    /// since, and none can write while the guard lasts.
    ///
    /// Store a copy together with its token. The copy is fresh if and only if the token is still
    /// the same. If the server has no record of a write, the first reader gets a token that is
    /// greater than all before. Later readers get the same token, until a write. So a copy that is
    /// not provably fresh counts as stale.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let cached = prices.read().await?.token(); // … copy the data …
    /// assert_eq!(prices.read().await?.token(), cached, "the copy is fresh");
    /// prices.write().await?.release().await?;
    /// assert_ne!(prices.read().await?.token(), cached, "the copy is stale");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The rule needs a server that does not lose acknowledged writes. After a failover that loses
    /// a write, or a restart from an earlier state, the token is that of an earlier write. A copy
    /// from before the lost write then counts as fresh until the next write. Where that matters,
    /// store the token with the data as well and compare, or ask for
    /// [durability](redlatch_core::Durability) on the writes.
    pub const fn token(&self) -> Token {
        self.0.granted_token()
    }
}

impl UpgradableReadGuard {
    /// Returns the token of the last write before this hold; see [`ReadGuard::token`]. After an
    /// upgrade, the [`WriteGuard`] has the token of its own write.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let look = prices.upgradable_read().await?;
    /// let before = look.token(); // of the data that this guard reads
    /// let writer = look.upgrade().await?;
    /// assert!(writer.token() > before);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn token(&self) -> Token {
        self.0.granted_token()
    }

    /// Becomes the writer as well, and waits until the other readers have left. New readers are
    /// blocked in the meantime. Await the returned builder.
    ///
    /// This guard stays. When the write guard is dropped, the hold is an upgradable read again, and
    /// no other owner has written in between. The owner of the builder is that of this guard.
    /// Another owner gets `Lost`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let account = client.read_write_lock("account:7");
    /// let look = account.upgradable_read().await?;
    /// let balance = 100; // … read it …
    /// if balance >= 30 {
    ///     let writer = look.upgrade().await?;
    ///     println!("write {} with token {}", balance - 30, writer.token());
    ///     writer.release().await?; // `look` still reads
    /// }
    /// assert_eq!(account.info().await?.readers, 1);
    /// # drop(look);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands for upgrade and release if no other owner reads, otherwise three.
    ///
    /// # Errors
    ///
    /// As [`ReadWriteLock::write`]; `Lost` if this hold is over.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. This guard is then the same upgradable read, and
    /// readers are no longer blocked.
    pub fn upgrade(&self) -> Acquire<WriteGuard> {
        Acquire::new(self.client(), self.writing()).owner(self.owner())
    }

    /// Becomes the writer as well if no other owner reads. Returns `None` otherwise. Otherwise as
    /// [`upgrade`](Self::upgrade).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let page = client.read_write_lock("page");
    /// let look = page.upgradable_read().await?;
    /// let reader = page.read().await?;
    /// assert!(look.try_upgrade().await?.is_none(), "edit later: the page is being read");
    /// drop(reader);
    /// assert!(look.try_upgrade().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_upgrade(&self) -> TryAcquire<WriteGuard> {
        TryAcquire::new(self.client(), self.writing()).owner(self.owner())
    }

    /// Becomes the writer as well, and waits up to `wait` until the other readers have left.
    /// Returns `None` if they stayed. Otherwise as [`upgrade`](Self::upgrade).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let page = client.read_write_lock("page");
    /// let look = page.upgradable_read().await?;
    /// let reader = page.read().lease(Duration::from_secs(2)).await?;
    /// let writer = look.try_upgrade_for(Duration::from_secs(5)).await?;
    /// assert!(writer.is_some(), "the lease of the reader has ended");
    /// # drop(reader);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_upgrade_for(&self, wait: Duration) -> TryAcquireFor<WriteGuard> {
        TryAcquireFor::new(self.client(), self.writing(), wait).owner(self.owner())
    }

    fn writing(&self) -> Result<Arc<dyn Primitive>, Error> {
        ReadWriteLock::of(&self.0).hold(Way::Upgrade(self.0.serial()))
    }
}

impl WriteGuard {
    /// Becomes a reader, in one step on the server. No other owner can write in between, and
    /// waiting readers are admitted. The lease stays the same. Costs one command.
    ///
    /// If the owner has other write guards, the owner stays the writer as well. The token of the
    /// read guard is that of this write. Other options of the write do not apply: the read guard
    /// has no `max_hold`, and its renewals do not wait for replicas.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let config = client.read_write_lock("config");
    /// let writer = config.write().await?;
    /// let token = writer.token(); // … write …
    /// let reader = writer.downgrade().await?;
    /// assert_eq!(reader.token(), token, "reads what it has written");
    /// assert!(config.try_read().await?.is_some(), "others read again");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Lost` if the write is over. Otherwise those of [every call](Error#errors-of-every-call).
    /// After an error, this guard is released as by a drop.
    ///
    /// # Cancel safety
    ///
    /// After a drop, both the write and the read are released in the background.
    pub async fn downgrade(self) -> Result<ReadGuard, Error> {
        self.0.check()?;
        let lock = ReadWriteLock::of(&self.0);
        let write = self.0.attempt();
        let way = Way::Downgrade(write, self.0.token(), self.0.void_by());
        let options = AcquireOptions {
            owner: OwnerChoice::Given(self.0.owner().clone()),
            lease: Some(self.0.lease()),
            wait: Wait::Never,
            ..AcquireOptions::default()
        };
        let held = lock.client().acquire(&lock.hold(way)?, &options).await?;
        let Some(held) = held else {
            let message = "a downgrade was answered as if somebody else wrote";
            return Err(Error::new(ErrorKind::Protocol, message));
        };
        self.0.surrender();
        Ok(ReadGuard(held))
    }
}

impl ReadWriteLock {
    /// Returns the lock of `held`.
    fn of(held: &Held) -> Self {
        let class: Arc<str> = held.primitive().class();
        Self::new(held.client(), held.name()).class(&class)
    }
}
