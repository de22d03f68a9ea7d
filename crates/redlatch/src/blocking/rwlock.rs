//! The read-write lock.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    background::Background,
    guard::{ReadGuard, UpgradableReadGuard, WriteGuard},
    options::{Lease, Options, Tuned, handle, lease_options, lock_options},
};
use crate::{Durability, Error, Owner, ReadWriteHolder, ReadWriteInfo, WaitStrategy};

handle! {
    /// The blocking [`ReadWriteLock`](crate::ReadWriteLock): many who read, one who writes.
    ///
    /// The handle is cheap to make and to clone and does no I/O. The first call that would send a
    /// request reports an invalid name. Its options apply to each acquisition through it.
    ReadWriteLock
}

macro_rules! side {
    ($(#[$about:meta])* $lock:ident, $try_lock:ident, $try_lock_for:ident, $guard:ident) => {
        $(#[$about])*
        ///
        /// # Errors
        ///
        /// Those of the async method; never for contention.
        ///
        /// # Panics
        ///
        /// Panics in async code.
        #[track_caller]
        pub fn $lock(&self) -> Result<$guard, Error> {
            let acquire = self.inner.$lock().tuned(&self.options);
            let guard = self.background.wait(acquire)?;
            Ok($guard::new(guard, &self.background))
        }

        /// The same if it is possible now; `None` otherwise.
        ///
        /// # Errors
        ///
        /// Those of the async method.
        ///
        /// # Panics
        ///
        /// Panics in async code.
        #[track_caller]
        pub fn $try_lock(&self) -> Result<Option<$guard>, Error> {
            let acquire = self.inner.$try_lock().tuned(&self.options);
            let guard = self.background.wait(acquire)?;
            Ok(guard.map(|guard| $guard::new(guard, &self.background)))
        }

        /// The same, for at most `wait`; `None` if it was not possible at each try.
        ///
        /// # Errors
        ///
        /// Those of the async method.
        ///
        /// # Panics
        ///
        /// Panics in async code.
        #[track_caller]
        pub fn $try_lock_for(&self, wait: Duration) -> Result<Option<$guard>, Error> {
            let acquire = self.inner.$try_lock_for(wait).tuned(&self.options);
            let guard = self.background.wait(acquire)?;
            Ok(guard.map(|guard| $guard::new(guard, &self.background)))
        }
    };
}

impl ReadWriteLock {
    lease_options!();
    lock_options!();

    /// Labels this handle's metrics and events with `class`.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.inner = self.inner.class(class);
        self
    }

    side! {
        /// Acquires the lock for reading, and blocks until nobody writes.
        read, try_read, try_read_for, ReadGuard
    }

    side! {
        /// Acquires the lock for writing, and blocks until nobody reads or writes.
        write, try_write, try_write_for, WriteGuard
    }

    side! {
        /// Acquires the lock for reading, with the right to become the writer.
        upgradable_read, try_upgradable_read, try_upgradable_read_for, UpgradableReadGuard
    }

    /// Returns how many times `owner` holds the lock for reading. Costs one command, as all
    /// questions below.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind`, `Permission`, `Auth`, `Closed`, `Unavailable`, `OutcomeUnknown`;
    /// so have all questions below.
    ///
    /// # Panics
    ///
    /// Panics in async code, as all questions below.
    #[track_caller]
    pub fn read_count(&self, owner: &Owner) -> Result<u32, Error> {
        self.background.wait(self.inner.read_count(owner))
    }

    /// Returns how many times `owner` holds the lock for writing.
    ///
    /// # Errors
    ///
    /// As [`read_count`](Self::read_count).
    #[track_caller]
    pub fn write_count(&self, owner: &Owner) -> Result<u32, Error> {
        self.background.wait(self.inner.write_count(owner))
    }

    /// Returns what the server knows of the lock.
    ///
    /// # Errors
    ///
    /// As [`read_count`](Self::read_count).
    #[track_caller]
    pub fn info(&self) -> Result<ReadWriteInfo, Error> {
        self.background.wait(self.inner.info())
    }

    /// Returns who holds the lock, and how.
    ///
    /// # Errors
    ///
    /// As [`read_count`](Self::read_count).
    #[track_caller]
    pub fn holders(&self) -> Result<Vec<ReadWriteHolder>, Error> {
        self.background.wait(self.inner.holders())
    }

    /// Ends all holds at once; that of `holder` only, if one is given. Returns their number.
    /// A holder learns of it with its next renewal.
    ///
    /// # Errors
    ///
    /// As [`read_count`](Self::read_count).
    #[track_caller]
    pub fn force_release(&self, holder: Option<&ReadWriteHolder>) -> Result<usize, Error> {
        let mut force = self.inner.force_release();
        if let Some(holder) = holder {
            force = force.holder(holder);
        }
        self.background.wait(force)
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.inner.name()
    }

    /// Returns the side for reading, as a member of a [`MultiLock`](super::MultiLock).
    pub fn read_side(&self) -> ReadWriteSide {
        ReadWriteSide::new(self.inner.read_side(), &self.background)
    }

    /// Returns the side for writing, as a member of a [`MultiLock`](super::MultiLock).
    pub fn write_side(&self) -> ReadWriteSide {
        ReadWriteSide::new(self.inner.write_side(), &self.background)
    }
}

/// One side of a [`ReadWriteLock`], as a member of a [`MultiLock`](super::MultiLock).
#[derive(Clone)]
pub struct ReadWriteSide {
    inner: crate::ReadWriteSide,
    background: Arc<Background>,
}

impl ReadWriteSide {
    fn new(inner: crate::ReadWriteSide, background: &Arc<Background>) -> Self {
        Self {
            inner,
            background: Arc::clone(background),
        }
    }

    pub(super) const fn background(&self) -> &Arc<Background> {
        &self.background
    }
}

impl crate::Lockable for ReadWriteSide {
    fn member(&self) -> Result<crate::Member, Error> {
        self.inner.member()
    }
}

impl fmt::Debug for ReadWriteSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
