//! The guards of a read-write lock.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Acquire, Error, ErrorKind, Held, Token, TryAcquire, TryAcquireFor,
    family::{AcquireOptions, Internals, OwnerChoice, Wait},
    guards,
};

use crate::{ReadWriteLock, kind::Way};

guards! {
    /// A read hold. Dropping it releases in the background; [`release`](Self::release) also returns the
    /// outcome.
    ///
    /// The promises of `LockGuard` about drop and loss hold for
    /// it, too. It has all methods of [`Held`].
    ReadGuard;

    /// A read hold with the right to become the writer. One owner at a time has it.
    ///
    /// Others may read beside it, and nobody else can write while it lasts. The data that it reads
    /// stays true until it upgrades.
    UpgradableReadGuard;

    /// The write hold. Dropping it releases in the background; [`release`](Self::release) also returns
    /// the outcome.
    ///
    /// Its [`token`](Held::token) is greater than that of every write before it.
    WriteGuard;
}

impl ReadGuard {
    /// Returns the token of the last write before this guard was granted. Nobody else has written
    /// since, nor will while it lasts.
    ///
    /// A copy that is stored with its token is fresh if and only if the token is still the same.
    /// Where the server knows of no write, because there was none or because it was forgotten, the
    /// first reader gets a token that is greater than all before, and later ones get the same,
    /// until a write. So a copy that is not provably fresh counts as stale.
    ///
    /// This needs a server that does not forget acknowledged writes. After a failover that loses a
    /// write, or a restart from an earlier state, the token is that of an earlier write, and a copy
    /// from before the lost write counts as fresh until the next write. Where that matters, store
    /// the token with the data as well and compare, or ask for
    /// [durability](redlatch_core::Durability) on the writes.
    pub const fn token(&self) -> Token {
        self.0.granted_token()
    }
}

impl UpgradableReadGuard {
    /// Returns the token of the last write before this hold, see [`ReadGuard::token`]. That of a
    /// write it was upgraded to is [`WriteGuard`]'s own.
    pub const fn token(&self) -> Token {
        self.0.granted_token()
    }

    /// Becomes the writer as well, and waits for the other readers to leave. New readers are
    /// blocked in the meantime. Await the returned builder.
    ///
    /// This guard stays: when the write guard is dropped, the hold is an upgradable read again, and
    /// nobody else has written in between. The builder's owner is this guard's; any other gets
    /// `Lost`.
    ///
    /// # Errors
    ///
    /// As [`ReadWriteLock::write`]; `Lost` if this hold is over.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any await. This guard is then the same upgradable read, and
    /// readers are no longer blocked.
    pub fn upgrade(&self) -> Acquire<WriteGuard> {
        let lock = ReadWriteLock::of(&self.0);
        Acquire::new(lock.client(), lock.hold(self.way())).owner(self.owner())
    }

    /// Becomes the writer as well if nobody else reads. Returns `None` otherwise. Otherwise as
    /// [`upgrade`](Self::upgrade).
    pub fn try_upgrade(&self) -> TryAcquire<WriteGuard> {
        let lock = ReadWriteLock::of(&self.0);
        TryAcquire::new(lock.client(), lock.hold(self.way())).owner(self.owner())
    }

    /// Becomes the writer as well, and waits up to `wait` for the other readers to leave. Returns
    /// `None` if they did not. Otherwise as [`upgrade`](Self::upgrade).
    pub fn try_upgrade_for(&self, wait: Duration) -> TryAcquireFor<WriteGuard> {
        let lock = ReadWriteLock::of(&self.0);
        TryAcquireFor::new(lock.client(), lock.hold(self.way()), wait).owner(self.owner())
    }

    fn way(&self) -> Way {
        Way::Upgrade(self.0.serial())
    }
}

impl WriteGuard {
    /// Becomes a reader, in one step on the server. Nobody can write in between, and waiting
    /// readers are admitted. The lease stays the same. Costs one command.
    ///
    /// If the owner has other write guards, it goes on writing beside the new read guard. The read
    /// guard's token is this write's. Other options of the write do not apply: the read guard has
    /// no `max_hold`, and its renewals wait for no replicas.
    ///
    /// # Errors
    ///
    /// `Lost` if the write is over; `Closed`, `Permission`, `ServerFull`; `Unavailable` or
    /// `OutcomeUnknown` when the server did not answer within the client's `patience`. In each case
    /// this guard is released as by a drop.
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
