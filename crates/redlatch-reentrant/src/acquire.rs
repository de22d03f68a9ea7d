//! The builders of an acquisition. Awaiting one runs it.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use redlatch_core::{
    AcquireOptions, Error, ErrorKind, Lease, Owner, OwnerChoice, Wait, WaitStrategy,
    primitive::Primitive,
};

use crate::{Lock, LockGuard};

/// What the three builders have in common.
#[derive(Clone, Debug)]
struct Request {
    lock: Lock,
    options: AcquireOptions,
    wrong: Option<Error>,
}

impl Request {
    fn new(lock: &Lock, wait: Wait) -> Self {
        Self {
            lock: lock.clone(),
            options: AcquireOptions {
                wait,
                ..AcquireOptions::default()
            },
            wrong: None,
        }
    }

    fn lease(&mut self, lease: Result<Lease, impl std::error::Error>) {
        match lease {
            Ok(lease) => {
                self.options.lease = Some(lease);
                self.wrong = None;
            }
            Err(error) => self.wrong = Some(Error::new(ErrorKind::InvalidLease, error.to_string())),
        }
    }

    async fn run(self) -> Result<Option<LockGuard>, Error> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        let primitive: Arc<dyn Primitive> = self.lock.plain()?.clone();
        let held = self
            .lock
            .client()
            .acquire(&primitive, &self.options)
            .await?;
        Ok(held.map(LockGuard::new))
    }
}

macro_rules! acquire_options {
    ($builder:ident) => {
        impl $builder {
            /// Holds for `lease` from the grant and no longer: 50 ms to 365 days. Nothing renews it; [`LockGuard::extend`] may.
            ///
            /// A re-entry never shortens the hold, and does not end its renewal while a guard lives that wants it.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0.lease(Lease::fixed(lease));
                self
            }

            /// Holds with a lease of `lease` that is renewed every third of it while the guard lives: 1 s to 365 days. The default, with the
            /// client's default lease of 30 s.
            pub fn renewed_lease(mut self, lease: Duration) -> Self {
                self.0.lease(Lease::renewed(lease));
                self
            }

            /// Stops renewing for this guard after `max`, although it lives: a guard that was forgotten frees its name. Default: never.
            ///
            /// The hold then ends with the lease that runs, up to one lease after `max`. Without renewal it changes nothing.
            pub const fn max_hold(mut self, max: Duration) -> Self {
                self.0.options.max_hold = Some(max);
                self
            }

            /// Acquires for `owner`, which re-enters if it holds already. Default: the owner of the scope, outside of any a fresh one.
            ///
            /// An owner of another client is an error, `ForeignOwner`.
            pub fn owner(mut self, owner: &Owner) -> Self {
                self.0.options.owner = OwnerChoice::Given(owner.clone());
                self
            }

            /// Acquires for a fresh owner, whatever scope this is called in.
            pub fn fresh_owner(mut self) -> Self {
                self.0.options.owner = OwnerChoice::Fresh;
                self
            }

            /// Sets how to wait. Default: [`WaitStrategy::Notify`].
            pub const fn strategy(mut self, strategy: WaitStrategy) -> Self {
                self.0.options.strategy = strategy;
                self
            }
        }
    };
}

/// An acquisition that waits; await it. See [`Lock::lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire(Request);

/// An acquisition that does not wait; await it. See [`Lock::try_lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired until this is awaited"]
pub struct TryAcquire(Request);

/// An acquisition that waits for a while; await it. See [`Lock::try_lock_for`].
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired until this is awaited"]
pub struct TryAcquireFor(Request);

acquire_options!(Acquire);
acquire_options!(TryAcquire);
acquire_options!(TryAcquireFor);

impl Acquire {
    pub(crate) fn new(lock: &Lock) -> Self {
        Self(Request::new(lock, Wait::Forever))
    }
}

impl TryAcquire {
    pub(crate) fn new(lock: &Lock) -> Self {
        Self(Request::new(lock, Wait::Never))
    }
}

impl TryAcquireFor {
    pub(crate) fn new(lock: &Lock, wait: Duration) -> Self {
        Self(Request::new(lock, Wait::For(wait)))
    }
}

impl IntoFuture for Acquire {
    type Output = Result<LockGuard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let guard = self.0.run().await?;
            guard.ok_or_else(|| {
                Error::new(
                    ErrorKind::Protocol,
                    "an acquisition without a deadline ended without a grant",
                )
            })
        })
    }
}

impl IntoFuture for TryAcquire {
    type Output = Result<Option<LockGuard>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.run())
    }
}

impl IntoFuture for TryAcquireFor {
    type Output = Result<Option<LockGuard>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.run())
    }
}
