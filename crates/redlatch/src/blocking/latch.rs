//! The countdown latch.

use std::{fmt, sync::Arc, time::Duration};

use super::background::Background;
use crate::{Error, LatchInfo};

/// The blocking [`CountDownLatch`](crate::CountDownLatch): waits until n things are done.
///
/// The handle is cheap to make and to clone and does no I/O. The first call that would send a
/// request reports an invalid name. All calls panic in async code.
#[derive(Clone)]
pub struct CountDownLatch {
    inner: crate::CountDownLatch,
    background: Arc<Background>,
}

impl CountDownLatch {
    pub(super) fn new(inner: crate::CountDownLatch, background: &Arc<Background>) -> Self {
        Self {
            inner,
            background: Arc::clone(background),
        }
    }

    /// Labels this handle's metrics and events with `class`.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.inner = self.inner.class(class);
        self
    }

    /// Sets the count if the latch is not set or open. Returns `false` otherwise. The latch lasts
    /// for `ttl`, or until it is deleted. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `try_set_count` of the async handle.
    #[track_caller]
    pub fn try_set_count(&self, count: u32, ttl: Option<Duration>) -> Result<bool, Error> {
        let mut set = self.inner.try_set_count(count);
        if let Some(ttl) = ttl {
            set = set.ttl(ttl);
        }
        self.background.wait(set)
    }

    /// Counts down by `n`, exactly once. Returns the count that is left. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `count_down` of the async handle.
    #[track_caller]
    pub fn count_down(&self, n: u32) -> Result<u32, Error> {
        self.background.wait(self.inner.count_down(n))
    }

    /// Counts down by `n`, and blocks until the latch is open.
    ///
    /// # Errors
    ///
    /// Those of `count_down_and_wait` of the async handle.
    #[track_caller]
    pub fn count_down_and_wait(&self, n: u32) -> Result<(), Error> {
        self.background.wait(self.inner.count_down_and_wait(n))
    }

    /// Blocks until the latch is open.
    ///
    /// # Errors
    ///
    /// Those of `wait` of the async handle.
    #[track_caller]
    pub fn wait(&self) -> Result<(), Error> {
        self.background.wait(self.inner.wait())
    }

    /// Blocks until the latch is open, for at most `wait`. Returns `false` if it is not open then.
    ///
    /// # Errors
    ///
    /// Those of `wait_for` of the async handle.
    #[track_caller]
    pub fn wait_for(&self, wait: Duration) -> Result<bool, Error> {
        self.background.wait(self.inner.wait_for(wait))
    }

    /// Returns the count. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `count` of the async handle.
    #[track_caller]
    pub fn count(&self) -> Result<u32, Error> {
        self.background.wait(self.inner.count())
    }

    /// Returns what the server knows of the latch; `None` if it is not set. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `info` of the async handle.
    #[track_caller]
    pub fn info(&self) -> Result<Option<LatchInfo>, Error> {
        self.background.wait(self.inner.info())
    }

    /// Deletes the latch. Returns `false` if it was not set. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `delete` of the async handle.
    #[track_caller]
    pub fn delete(&self) -> Result<bool, Error> {
        self.background.wait(self.inner.delete())
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.inner.name()
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
