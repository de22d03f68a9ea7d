//! The guards, which block until they have released.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{
    background::Background,
    multi::Thread,
    stop::{Stop, Watched},
};
use crate::{Error, HoldState, LossCause, NodeOutcomes, Owner, Released, Token};

/// A guard of the async API that can release in the background.
trait Release: Send + 'static {
    type Outcome: Send;

    fn release(self) -> impl Future<Output = Self::Outcome> + Send + 'static;
}

/// A guard and the thread that releases it.
struct Owned<G: Release> {
    guard: Option<G>,
    background: Arc<Background>,
    /// Threads of other clients that take part in the hold.
    threads: Option<Arc<[Thread]>>,
}

impl<G: Release> Owned<G> {
    #[expect(clippy::expect_used, reason = "only the end of `self` takes it")]
    fn guard(&self) -> &G {
        self.guard
            .as_ref()
            .expect("the guard lives as long as this")
    }

    #[expect(clippy::expect_used, reason = "only the end of `self` takes it")]
    fn guard_mut(&mut self) -> &mut G {
        self.guard
            .as_mut()
            .expect("the guard lives as long as this")
    }

    #[expect(clippy::expect_used, reason = "this is the end of `self`")]
    fn into_guard(mut self) -> (G, Arc<Background>) {
        let guard = self.guard.take();
        let background = Arc::clone(&self.background);
        (guard.expect("the guard lives as long as this"), background)
    }

    #[track_caller]
    fn release(self) -> G::Outcome {
        let _threads = self.threads.clone();
        let (guard, background) = self.into_guard();
        background.wait(guard.release())
    }
}

impl<G: Release> Drop for Owned<G> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            let release = guard.release();
            self.background.finish(async move {
                // A guard has no caller to tell. The event of the release has its outcome.
                let _ = release.await;
            });
        }
    }
}

macro_rules! guard {
    ($(#[$about:meta])* $guard:ident, $outcome:ty) => {
        $(#[$about])*
        #[must_use = "a guard that is dropped at once releases at once"]
        pub struct $guard(Owned<crate::$guard>);

        impl Release for crate::$guard {
            type Outcome = $outcome;

            async fn release(self) -> $outcome {
                self.release().await
            }
        }

        impl Watched for $guard {
            fn check(&self) -> Result<(), Error> {
                self.0.guard().check()
            }

            fn remaining(&self) -> Duration {
                self.0.guard().remaining()
            }
        }

        impl $guard {
            pub(super) fn new(guard: crate::$guard, background: &Arc<Background>) -> Self {
                Self(Owned {
                    guard: Some(guard),
                    background: Arc::clone(background),
                    threads: None,
                })
            }

            /// Returns the state at this instant. Sends no request.
            pub fn state(&self) -> HoldState {
                self.0.guard().state()
            }

            /// Fails with the cause if the hold is lost. Call it before each step that relies on
            /// the hold. Sends no request.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Lost`](crate::ErrorKind::Lost).
            pub fn check(&self) -> Result<(), Error> {
                self.0.guard().check()
            }

            /// Returns how long the hold can be relied on if nothing renews it; zero after a loss.
            pub fn remaining(&self) -> Duration {
                self.0.guard().remaining()
            }

            /// Runs `work` on this thread. The work asks `stop` whether it may go on.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the hold was lost before the work had
            /// ended. The value of the work is dropped. Keep what it has done outside of the
            /// closure, if it matters after a loss.
            pub fn run<T>(&self, work: impl FnOnce(Stop<'_>) -> T) -> Result<T, Error> {
                self.check()?;
                let value = work(Stop::new(self));
                self.check()?;
                Ok(value)
            }

            /// Blocks until the hold is lost, and returns the cause. For a thread that watches a
            /// hold of another one.
            ///
            /// # Panics
            ///
            /// Panics in async code.
            #[track_caller]
            pub fn wait_lost(&self) -> LossCause {
                self.0.background.wait(self.0.guard().lost())
            }

            /// Blocks until `before` the deadline, unless the hold is renewed or extended in time;
            /// returns at once when the hold is lost and when the client closes.
            ///
            /// # Panics
            ///
            /// Panics in async code.
            #[track_caller]
            pub fn wait_ending(&self, before: Duration) {
                self.0.background.wait(self.0.guard().ending(before));
            }

            /// Extends the hold, once, to at least `span` from now: 50 ms to 365 days. Never
            /// shortens it. Costs one command.
            ///
            /// # Errors
            ///
            /// Those of `extend` of the async guard.
            ///
            /// # Panics
            ///
            /// Panics in async code.
            #[track_caller]
            pub fn extend(&self, span: Duration) -> Result<(), Error> {
                self.0.background.wait(self.0.guard().extend(span))
            }

            /// Releases this guard and returns the outcome. Costs one command. An earlier loss of
            /// the hold is an outcome and not an error.
            ///
            /// # Errors
            ///
            /// Those of `release` of the async guard. The release then goes on in the background.
            ///
            /// # Panics
            ///
            /// Panics in async code. The release then goes on in the background.
            #[track_caller]
            pub fn release(self) -> $outcome {
                self.0.release()
            }
        }

        impl fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.guard().fmt(f)
            }
        }
    };
}

/// Writes what guards of one hold of a lock know.
macro_rules! lock_guard {
    ($guard:ident) => {
        impl $guard {
            /// Returns the name.
            pub fn name(&self) -> &str {
                self.0.guard().name()
            }

            /// Returns the owner. Pass it to a handle to re-enter.
            pub fn owner(&self) -> &Owner {
                self.0.guard().owner()
            }

            /// Returns the fencing token, which is greater than that of every earlier hold of this
            /// name. Pass it to the resource that the lock protects.
            pub fn token(&self) -> Token {
                self.0.guard().token()
            }

            /// Returns the number of guards of this hold in this process. Sends no request.
            pub fn hold_count(&self) -> usize {
                self.0.guard().hold_count()
            }

            /// Tells whether the previous hold ended without a release. `false` is no proof.
            pub fn is_after_abandonment(&self) -> bool {
                self.0.guard().is_after_abandonment()
            }

            /// Returns how many replicas had confirmed the grant.
            pub fn acknowledged(&self) -> u32 {
                self.0.guard().acknowledged()
            }
        }
    };
}

guard! {
    /// A hold of a [`Lock`](super::Lock). Dropping it releases.
    LockGuard, Result<Released, Error>
}
guard! {
    /// A hold of a [`FairLock`](super::FairLock). Dropping it releases.
    FairLockGuard, Result<Released, Error>
}
guard! {
    /// A shared hold of a [`ReadWriteLock`](super::ReadWriteLock). Dropping it releases.
    ReadGuard, Result<Released, Error>
}
guard! {
    /// A shared hold of a [`ReadWriteLock`](super::ReadWriteLock) that can become exclusive.
    /// Dropping it releases.
    UpgradableReadGuard, Result<Released, Error>
}
guard! {
    /// An exclusive hold of a [`ReadWriteLock`](super::ReadWriteLock). Dropping it releases.
    WriteGuard, Result<Released, Error>
}
guard! {
    /// Permits of a [`Semaphore`](super::Semaphore). Dropping it returns them.
    SemaphorePermit, Result<Released, Error>
}
guard! {
    /// A hold of a [`MultiLock`](super::MultiLock). Dropping it releases all members.
    MultiGuard, Result<Vec<(String, Released)>, Error>
}
guard! {
    /// A hold of a [`RedLock`](super::RedLock). Dropping it releases on all nodes.
    RedGuard, Result<Vec<(String, Released)>, Error>
}

lock_guard!(LockGuard);
lock_guard!(FairLockGuard);
lock_guard!(ReadGuard);
lock_guard!(UpgradableReadGuard);
lock_guard!(WriteGuard);

impl UpgradableReadGuard {
    /// Blocks until no other owner reads, and holds the lock exclusively as well. See
    /// [`UpgradableReadGuard::upgrade`](crate::UpgradableReadGuard::upgrade).
    ///
    /// # Errors
    ///
    /// As [`ReadWriteLock::write`](super::ReadWriteLock::write).
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn upgrade(&self) -> Result<WriteGuard, Error> {
        let guard = self.0.background.wait(self.0.guard().upgrade())?;
        Ok(WriteGuard::new(guard, &self.0.background))
    }

    /// Holds the lock exclusively as well if no other owner reads now; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn try_upgrade(&self) -> Result<Option<WriteGuard>, Error> {
        let guard = self.0.background.wait(self.0.guard().try_upgrade())?;
        Ok(guard.map(|guard| WriteGuard::new(guard, &self.0.background)))
    }

    /// As [`upgrade`](Self::upgrade), for at most `wait`; `None` if others still read then.
    ///
    /// # Errors
    ///
    /// As [`upgrade`](Self::upgrade).
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn try_upgrade_for(&self, wait: Duration) -> Result<Option<WriteGuard>, Error> {
        let guard = self
            .0
            .background
            .wait(self.0.guard().try_upgrade_for(wait))?;
        Ok(guard.map(|guard| WriteGuard::new(guard, &self.0.background)))
    }
}

impl WriteGuard {
    /// Turns the exclusive hold into a shared one without a gap. See
    /// [`WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    ///
    /// # Errors
    ///
    /// As `downgrade` of the async guard.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn downgrade(self) -> Result<ReadGuard, Error> {
        let (guard, background) = self.0.into_guard();
        let guard = background.wait(guard.downgrade())?;
        Ok(ReadGuard::new(guard, &background))
    }
}

impl SemaphorePermit {
    /// Returns the name of the semaphore.
    pub fn name(&self) -> &str {
        self.0.guard().name()
    }

    /// Returns the number of permits of this guard.
    pub fn num_permits(&self) -> u32 {
        self.0.guard().num_permits()
    }

    /// Splits `n` permits off into a guard of their own. Sends no request.
    ///
    /// # Errors
    ///
    /// `InvalidOption` if this guard has fewer.
    pub fn split(&mut self, n: u32) -> Result<Self, Error> {
        let split = self.0.guard_mut().split(n)?;
        Ok(Self::new(split, &self.0.background))
    }

    /// Merges the permits of another guard of the same client and semaphore. Sends no request.
    ///
    /// # Errors
    ///
    /// Returns `other` if it belongs to another client or semaphore.
    pub fn merge(&mut self, other: Self) -> Result<(), Self> {
        let (other, background) = other.0.into_guard();
        let merged = self.0.guard_mut().merge(other);
        merged.map_err(|other| Self::new(other, &background))
    }

    /// Drops the guard and removes its permits from the semaphore for good. See
    /// [`SemaphorePermit::forget`](crate::SemaphorePermit::forget).
    ///
    /// # Errors
    ///
    /// As `forget` of the async guard.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn forget(self) -> Result<(), Error> {
        let (guard, background) = self.0.into_guard();
        background.wait(guard.forget())
    }
}

/// Writes the constructor of a guard that several clients renew.
macro_rules! over_threads {
    ($guard:ident) => {
        impl $guard {
            pub(super) fn over(
                guard: crate::$guard,
                background: &Arc<Background>,
                threads: &Arc<[Thread]>,
            ) -> Self {
                let mut this = Self::new(guard, background);
                this.0.threads = Some(Arc::clone(threads));
                this
            }
        }
    };
}

over_threads!(MultiGuard);
over_threads!(RedGuard);

impl MultiGuard {
    /// Returns the fencing token of the member called `name`.
    pub fn token(&self, name: &str) -> Option<Token> {
        self.0.guard().token(name)
    }
}

impl RedGuard {
    /// Returns what each node answered to the acquisition.
    pub fn outcomes(&self) -> &NodeOutcomes {
        self.0.guard().outcomes()
    }

    /// Returns the number of nodes on which the hold still counts.
    pub fn nodes_held(&self) -> usize {
        self.0.guard().nodes_held()
    }
}
