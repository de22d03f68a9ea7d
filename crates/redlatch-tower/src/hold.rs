//! The need of a request, and its hold.

use std::time::Duration;

use redlatch::{AnyGuard, Error, Lock, Semaphore};

/// An object that a request has to hold while the service works on it.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Lock(Lock),
    Permit(Semaphore),
}

/// A hold for one request. Its drop releases in the background.
pub(crate) type Hold = Box<dyn AnyGuard>;

impl Object {
    /// Acquires the object; `None` if others have it for as long as `wait`.
    pub(crate) async fn acquire(self, wait: Duration) -> Result<Option<Hold>, Error> {
        Ok(match self {
            Self::Lock(lock) => lock.try_lock_for(wait).await?.map(Hold::from),
            Self::Permit(semaphore) => semaphore.try_acquire_for(wait).await?.map(Hold::from),
        })
    }
}
