//! The semaphore whose permits have ids.

use std::{fmt, sync::Arc, time::Duration};

use super::{background::Background, semaphore::numbers};
use crate::{
    Error, PermitId,
    permits::{PermitHolder, PermitRelease, Totals},
};

/// The blocking [`PermitExpirableSemaphore`](crate::PermitExpirableSemaphore): permits that travel
/// between processes, with a lease each.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name. A permit has an id and no guard: it is released by its id, and
/// otherwise comes back when its lease ends.
#[derive(Clone)]
pub struct PermitExpirableSemaphore {
    inner: crate::PermitExpirableSemaphore,
    lease: Option<Duration>,
    background: Arc<Background>,
}

/// Awaits a builder of ids with the lease of the handle.
macro_rules! taken {
    ($handle:expr, $builder:expr) => {{
        let builder = $builder;
        $handle.background.wait(match $handle.lease {
            Some(lease) => builder.lease(lease),
            None => builder,
        })
    }};
}

impl PermitExpirableSemaphore {
    pub(super) fn new(
        inner: crate::PermitExpirableSemaphore,
        background: &Arc<Background>,
    ) -> Self {
        Self {
            inner,
            lease: None,
            background: Arc::clone(background),
        }
    }

    /// Sets the lease of permits: 50 ms to 365 days. Default: the client's default lease, 30 s
    /// unless it was set.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    numbers!();

    /// Acquires a permit, and blocks until there is one. Returns its id.
    ///
    /// # Errors
    ///
    /// Those of `acquire` of the async handle; never for contention.
    #[track_caller]
    pub fn acquire(&self) -> Result<PermitId, Error> {
        taken!(self, self.inner.acquire())
    }

    /// Acquires `n` permits at once, and blocks until there are so many. Returns their ids.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn acquire_many(&self, n: u32) -> Result<Vec<PermitId>, Error> {
        taken!(self, self.inner.acquire_many(n))
    }

    /// Acquires a permit if there is one now; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<PermitId>, Error> {
        taken!(self, self.inner.try_acquire())
    }

    /// Acquires `n` permits if there are so many now; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire_many(&self, n: u32) -> Result<Option<Vec<PermitId>>, Error> {
        taken!(self, self.inner.try_acquire_many(n))
    }

    /// Acquires a permit and waits up to `wait`; `None` if there was none.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire_for(&self, wait: Duration) -> Result<Option<PermitId>, Error> {
        taken!(self, self.inner.try_acquire_for(wait))
    }

    /// Acquires `n` permits and waits up to `wait`; `None` if there were too few.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire_many_for(
        &self,
        n: u32,
        wait: Duration,
    ) -> Result<Option<Vec<PermitId>>, Error> {
        taken!(self, self.inner.try_acquire_many_for(n, wait))
    }

    /// Releases the permit with this id, which any process may have acquired. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `release` of the async handle.
    #[track_caller]
    pub fn release(&self, id: &PermitId) -> Result<PermitRelease, Error> {
        self.background.wait(self.inner.release(id))
    }

    /// Releases the permits with these ids. Returns an outcome for each.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    #[track_caller]
    pub fn release_all(&self, ids: &[PermitId]) -> Result<Vec<PermitRelease>, Error> {
        self.background.wait(self.inner.release_all(ids))
    }

    /// Extends the lease of a permit to at least `lease` from now. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `extend` of the async handle.
    #[track_caller]
    pub fn extend(&self, id: &PermitId, lease: Duration) -> Result<(), Error> {
        self.background.wait(self.inner.extend(id, lease))
    }

    /// Returns how long the lease of a permit lasts; `None` if it is over. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `remaining` of the async handle.
    #[track_caller]
    pub fn remaining(&self, id: &PermitId) -> Result<Option<Duration>, Error> {
        self.background.wait(self.inner.remaining(id))
    }
}

impl fmt::Debug for PermitExpirableSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
