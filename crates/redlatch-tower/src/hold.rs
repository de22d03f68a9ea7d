//! The need of a request, and its hold.

use std::{future::Future, pin::Pin, time::Duration};

use redlatch::{Error, Lock, LockGuard, LossCause, Semaphore, SemaphorePermit, Token};

/// An object that a request has to hold while the service works on it.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Lock(Lock),
    Permit(Semaphore),
}

/// A hold for one request. Its drop releases in the background.
#[derive(Debug)]
pub(crate) enum Hold {
    Lock(LockGuard),
    Permit(SemaphorePermit),
}

impl Object {
    /// Acquires the object; `None` if others have it for as long as `wait`.
    pub(crate) async fn acquire(self, wait: Duration) -> Result<Option<Hold>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_lock_for(wait).await?.map(Hold::Lock),
            Self::Permit(semaphore) => semaphore.try_acquire_for(wait).await?.map(Hold::Permit),
        })
    }
}

impl Hold {
    /// Returns the fencing token; permits have none.
    pub(crate) fn token(&self) -> Option<Token> {
        match self {
            Self::Lock(guard) => Some(guard.token()),
            Self::Permit(_) => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.check(),
            Self::Permit(permit) => permit.check(),
        }
    }

    /// Runs `work` while the hold lasts, and drops it after a loss.
    pub(crate) async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        match self {
            Self::Lock(guard) => guard.run(work).await,
            Self::Permit(permit) => permit.run(work).await,
        }
    }

    /// Resolves when the hold is lost.
    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = LossCause> + Send>> {
        match self {
            Self::Lock(guard) => Box::pin(guard.lost()),
            Self::Permit(permit) => Box::pin(permit.lost()),
        }
    }
}
