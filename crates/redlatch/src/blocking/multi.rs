//! Locks over several names or servers.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    background::Background,
    guard::{MultiGuard, RedGuard},
    lock::{FairLock, Lock},
    options::{Lease, Options, Tuned, lease_options},
    rwlock::ReadWriteSide,
};
use crate::{Error, RedLockBuilder, WaitStrategy};

/// A lock that can be a member of a [`MultiLock`] or a node of a [`RedLock`]: [`Lock`],
/// [`FairLock`] and [`ReadWriteSide`]. No other type can implement it.
pub trait Lockable: crate::Lockable {
    #[doc(hidden)]
    fn thread(&self) -> Thread;
}

/// The thread of a lock's client. Opaque.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Thread(Arc<Background>);

macro_rules! lockable {
    ($($lock:ident),*) => {$(
        impl Lockable for $lock {
            fn thread(&self) -> Thread {
                Thread(Arc::clone(self.background()))
            }
        }
    )*};
}

lockable!(Lock, FairLock, ReadWriteSide);

macro_rules! bundle {
    ($(#[$about:meta])* $handle:ident, $guard:ident) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $handle {
            inner: crate::$handle,
            options: Options,
            background: Arc<Background>,
            /// The threads of all members' clients, which live as long as this and its guards.
            threads: Arc<[Thread]>,
        }

        impl $handle {
            lease_options!();

            /// Acquires all that is needed, and blocks until it is free.
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
                Ok($guard::over(guard, &self.background, &self.threads))
            }

            /// Acquires all that is needed if it is free now; `None` otherwise.
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
                Ok(guard.map(|guard| $guard::over(guard, &self.background, &self.threads)))
            }

            /// Acquires all that is needed and waits up to `wait`; `None` if it was not free.
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
                Ok(guard.map(|guard| $guard::over(guard, &self.background, &self.threads)))
            }
        }

        impl fmt::Debug for $handle {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}

bundle! {
    /// The blocking [`MultiLock`](crate::MultiLock): several locks, all or nothing.
    MultiLock, MultiGuard
}

bundle! {
    /// The blocking [`RedLock`](crate::RedLock): a lock over a majority of independent servers.
    ///
    /// [`Client::red_lock`](super::Client::red_lock) makes one with the default settings.
    RedLock, RedGuard
}

impl MultiLock {
    pub(super) fn new(background: &Arc<Background>, members: &[&dyn Lockable]) -> Self {
        let plain: Vec<_> = members.iter().map(|&member| member as _).collect();
        Self {
            inner: crate::MultiLock::new(&plain),
            options: Options::default(),
            background: Arc::clone(background),
            threads: members.iter().map(|member| member.thread()).collect(),
        }
    }
}

impl RedLock {
    /// Creates a lock over `nodes`, locks of the same name on independent servers, at least three.
    /// `settings` changes quorum, time-outs and pauses.
    ///
    /// ```no_run
    /// # use redlatch::blocking::{Client, RedLock};
    /// # fn example(a: Client, b: Client, c: Client) -> Result<(), redlatch::Error> {
    /// let nodes = [a, b, c].map(|client| client.lock("orders:42"));
    /// let red = RedLock::of(&[&nodes[0], &nodes[1], &nodes[2]], |red| red.quorum(3))?;
    /// let guard = red.lock()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`RedLockBuilder::build`].
    pub fn of(
        nodes: &[&dyn Lockable],
        settings: impl FnOnce(RedLockBuilder) -> RedLockBuilder,
    ) -> Result<Self, Error> {
        let plain: Vec<_> = nodes.iter().map(|&node| node as _).collect();
        let inner = settings(crate::RedLock::builder(&plain)).build()?;
        let threads: Arc<[Thread]> = nodes.iter().map(|node| node.thread()).collect();
        Ok(Self {
            inner,
            options: Options::default(),
            // `build` has refused fewer than three nodes.
            background: Arc::clone(&threads[0].0),
            threads,
        })
    }

    pub(super) fn new(inner: crate::RedLock, threads: &[&Arc<Background>]) -> Self {
        let threads: Arc<[Thread]> = threads.iter().map(|&one| Thread(Arc::clone(one))).collect();
        Self {
            inner,
            options: Options::default(),
            background: Arc::clone(&threads[0].0),
            threads,
        }
    }
}
