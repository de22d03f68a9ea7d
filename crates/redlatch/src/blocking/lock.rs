//! The locks of one owner.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    background::Background,
    guard::{FairLockGuard, LockGuard},
    iter::Iter,
    options::{Lease, Options, Tuned, handle, lease_options, lock_options},
};
use crate::{Durability, Error, Holder, LockInfo, Owner, Token, WaitStrategy, Waiters};

handle! {
    /// The blocking [`Lock`](crate::Lock): reentrant, under one name, shared by all processes that
    /// use the same server and prefix.
    ///
    /// The handle is cheap to make and to clone and does no I/O. The first call that would send a
    /// request reports an invalid name. Its options apply to each acquisition through it.
    Lock
}

handle! {
    /// The blocking [`FairLock`](crate::FairLock): served in order of arrival.
    ///
    /// The handle is cheap to make and to clone and does no I/O. The first call that would send a
    /// request reports an invalid name. Its options apply to each acquisition through it.
    FairLock
}

macro_rules! exclusive {
    ($handle:ident, $guard:ident) => {
        impl $handle {
            lease_options!();
            lock_options!();

            /// Labels this handle's metrics and events with `class`.
            #[must_use]
            pub fn class(mut self, class: &str) -> Self {
                self.inner = self.inner.class(class);
                self
            }

            /// Acquires the lock, and blocks until it is free. Two commands for acquire and release
            /// when it is free.
            ///
            /// # Errors
            ///
            /// Those of `lock` of the async handle; never for contention.
            ///
            /// # Panics
            ///
            /// Panics in async code.
            #[track_caller]
            pub fn lock(&self) -> Result<$guard, Error> {
                let acquire = self.inner.lock().tuned(&self.options);
                let guard = self.background.wait(acquire)?;
                Ok($guard::new(guard, &self.background))
            }

            /// Acquires the lock if it is free now. Returns `None` if another owner has it.
            ///
            /// # Errors
            ///
            /// As [`lock`](Self::lock).
            ///
            /// # Panics
            ///
            /// Panics in async code.
            #[track_caller]
            pub fn try_lock(&self) -> Result<Option<$guard>, Error> {
                let acquire = self.inner.try_lock().tuned(&self.options);
                let guard = self.background.wait(acquire)?;
                Ok(guard.map(|guard| $guard::new(guard, &self.background)))
            }

            /// Acquires the lock and waits up to `wait`. Returns `None` if another owner had it at
            /// each try.
            ///
            /// # Errors
            ///
            /// As [`lock`](Self::lock).
            ///
            /// # Panics
            ///
            /// Panics in async code.
            #[track_caller]
            pub fn try_lock_for(&self, wait: Duration) -> Result<Option<$guard>, Error> {
                let acquire = self.inner.try_lock_for(wait).tuned(&self.options);
                let guard = self.background.wait(acquire)?;
                Ok(guard.map(|guard| $guard::new(guard, &self.background)))
            }

            /// Tells whether anybody holds the lock. The answer may be outdated on arrival. Costs
            /// one command, as all questions below.
            ///
            /// # Errors
            ///
            /// `InvalidName`, `WrongKind`, `Permission`, `Auth`, `Closed`, `Unavailable`,
            /// `OutcomeUnknown`; so have all questions below.
            ///
            /// # Panics
            ///
            /// Panics in async code, as all questions below.
            #[track_caller]
            pub fn is_locked(&self) -> Result<bool, Error> {
                self.background.wait(self.inner.is_locked())
            }

            /// Tells whether `owner` holds the lock.
            ///
            /// # Errors
            ///
            /// As [`is_locked`](Self::is_locked).
            #[track_caller]
            pub fn is_held_by(&self, owner: &Owner) -> Result<bool, Error> {
                self.background.wait(self.inner.is_held_by(owner))
            }

            /// Returns how many times `owner` holds the lock.
            ///
            /// # Errors
            ///
            /// As [`is_locked`](Self::is_locked).
            #[track_caller]
            pub fn hold_count(&self, owner: &Owner) -> Result<u32, Error> {
                self.background.wait(self.inner.hold_count(owner))
            }

            /// Returns how long the holder's lease lasts; `None` if the lock is free.
            ///
            /// # Errors
            ///
            /// As [`is_locked`](Self::is_locked).
            #[track_caller]
            pub fn remaining(&self) -> Result<Option<Duration>, Error> {
                self.background.wait(self.inner.remaining())
            }

            /// Returns what the server knows of the hold; `None` if the lock is free.
            ///
            /// # Errors
            ///
            /// As [`is_locked`](Self::is_locked).
            #[track_caller]
            pub fn info(&self) -> Result<Option<LockInfo>, Error> {
                self.background.wait(self.inner.info())
            }

            /// Returns who holds the lock.
            ///
            /// # Errors
            ///
            /// As [`is_locked`](Self::is_locked).
            #[track_caller]
            pub fn holders(&self) -> Result<Vec<Holder>, Error> {
                self.background.wait(self.inner.holders())
            }

            /// Takes the lock from its holder at once; from that with `token` only, if one is
            /// given. Returns `false` if nobody had it. The holder learns of it with its next
            /// renewal.
            ///
            /// # Errors
            ///
            /// As [`is_locked`](Self::is_locked).
            #[track_caller]
            pub fn force_release(&self, token: Option<Token>) -> Result<bool, Error> {
                let mut force = self.inner.force_release();
                if let Some(token) = token {
                    force = force.token(token);
                }
                self.background.wait(force)
            }

            /// Returns the name as it was given; `None` if it is invalid.
            pub fn name(&self) -> Option<&str> {
                self.inner.name()
            }

            pub(super) const fn background(&self) -> &Arc<Background> {
                &self.background
            }
        }

        impl crate::Lockable for $handle {
            fn member(&self) -> Result<crate::Member, Error> {
                self.inner.member()
            }
        }
    };
}

exclusive!(Lock, LockGuard);
exclusive!(FairLock, FairLockGuard);

impl FairLock {
    /// Reads who waits, in order.
    pub fn waiters(&self) -> Iter<Waiters> {
        Iter::new(self.inner.waiters(), &self.background)
    }

    /// Returns how many waiters are before `owner`; `None` if it does not wait.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Self::is_locked).
    #[track_caller]
    pub fn position(&self, owner: &Owner) -> Result<Option<u64>, Error> {
        self.background.wait(self.inner.position(owner))
    }
}

/// The blocking [`StripedLock`](crate::StripedLock): `n` locks that stand for any number of keys.
#[derive(Clone)]
pub struct StripedLock {
    inner: crate::StripedLock,
    background: Arc<Background>,
}

impl StripedLock {
    pub(super) fn new(inner: crate::StripedLock, background: &Arc<Background>) -> Self {
        Self {
            inner,
            background: Arc::clone(background),
        }
    }

    /// Labels the metrics and events of all stripes with `class`.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.inner = self.inner.class(class);
        self
    }

    /// Returns the lock that `key` belongs to.
    pub fn of(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.inner.of(key), &self.background)
    }

    /// Returns the number of the stripe that `key` belongs to, from 0.
    pub fn index(&self, key: impl AsRef<[u8]>) -> u32 {
        self.inner.index(key)
    }

    /// Returns all stripes, in order.
    pub fn stripes(&self) -> impl ExactSizeIterator<Item = Lock> + '_ {
        let stripes = self.inner.stripes();
        stripes.map(|stripe| Lock::new(stripe, &self.background))
    }
}

impl fmt::Debug for StripedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
