//! The semaphore.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    background::Background,
    guard::SemaphorePermit,
    options::{Lease, Options, Tuned, handle, lease_options},
};
use crate::{
    Error, WaitStrategy,
    semaphore::{PermitHolder, Totals},
};

handle! {
    /// The blocking [`Semaphore`](crate::Semaphore): at most n at a time, over all processes.
    ///
    /// The handle is cheap to make and to clone and does no I/O. The first call that would send a
    /// request reports an invalid name. Its options apply to each acquisition through it.
    Semaphore
}

/// Writes the methods that change and read the number of permits.
macro_rules! numbers {
    () => {
        /// Labels this handle's metrics and events with `class`.
        #[must_use]
        pub fn class(mut self, class: &str) -> Self {
            self.inner = self.inner.class(class);
            self
        }

        /// Sets the default number of permits, which the first acquisition over such a handle sets
        /// if there is none. Costs nothing. A number on the server takes precedence.
        #[must_use]
        pub fn permits_if_unset(mut self, permits: u32) -> Self {
            self.inner = self.inner.permits_if_unset(permits);
            self
        }

        /// Sets the number of permits, whatever it was before. Costs one command, as all changes
        /// below.
        ///
        /// # Errors
        ///
        /// `InvalidName`, `WrongKind`, `ServerFull`, `Permission`, `Auth`, `Closed`, `Unavailable`,
        /// `OutcomeUnknown` if the change may have been made; so have all changes below.
        ///
        /// # Panics
        ///
        /// Panics in async code, as all methods below.
        #[track_caller]
        pub fn set_permits(&self, permits: u32) -> Result<(), Error> {
            self.background.wait(self.inner.set_permits(permits))
        }

        /// Sets the number of permits if it is not set. Returns `false` if it was set.
        ///
        /// # Errors
        ///
        /// As [`set_permits`](Self::set_permits).
        #[track_caller]
        pub fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
            self.background.wait(self.inner.try_set_permits(permits))
        }

        /// Adds `change` permits, or removes them if it is negative. Returns the new number.
        ///
        /// # Errors
        ///
        /// `NotSet`, `OutOfRange`. Otherwise as [`set_permits`](Self::set_permits).
        #[track_caller]
        pub fn add_permits(&self, change: i64) -> Result<u32, Error> {
            self.background.wait(self.inner.add_permits(change))
        }

        /// Removes all permits that are available at this moment, and returns their number.
        ///
        /// # Errors
        ///
        /// As [`add_permits`](Self::add_permits).
        #[track_caller]
        pub fn drain_permits(&self) -> Result<u32, Error> {
            self.background.wait(self.inner.drain_permits())
        }

        /// Deletes the semaphore. Returns `false` if the number was not set.
        ///
        /// # Errors
        ///
        /// As [`set_permits`](Self::set_permits).
        #[track_caller]
        pub fn delete(&self) -> Result<bool, Error> {
            self.background.wait(self.inner.delete())
        }

        /// Returns the number of permits that are available at this moment.
        ///
        /// # Errors
        ///
        /// As [`totals`](Self::totals).
        #[track_caller]
        pub fn available_permits(&self) -> Result<u32, Error> {
            self.background.wait(self.inner.available_permits())
        }

        /// Returns the total number of permits, including those given out.
        ///
        /// # Errors
        ///
        /// As [`totals`](Self::totals).
        #[track_caller]
        pub fn permits(&self) -> Result<u32, Error> {
            self.background.wait(self.inner.permits())
        }

        /// Returns the total number of permits, the number given out, and the number of waiters.
        ///
        /// # Errors
        ///
        /// `NotSet`, `InvalidName`, `WrongKind`, `Permission`, `Auth`, `Closed`, `Unavailable`,
        /// `OutcomeUnknown`.
        #[track_caller]
        pub fn totals(&self) -> Result<Totals, Error> {
            self.background.wait(self.inner.totals())
        }

        /// Returns who has permits.
        ///
        /// # Errors
        ///
        /// As [`totals`](Self::totals).
        #[track_caller]
        pub fn holders(&self) -> Result<Vec<PermitHolder>, Error> {
            self.background.wait(self.inner.holders())
        }

        /// Returns the name as it was given; `None` if it is invalid.
        pub fn name(&self) -> Option<&str> {
            self.inner.name()
        }
    };
}

pub(super) use numbers;

impl Semaphore {
    lease_options!();
    numbers!();

    /// Acquires a permit, and blocks until there is one.
    ///
    /// # Errors
    ///
    /// Those of `acquire` of the async handle; never for contention.
    #[track_caller]
    pub fn acquire(&self) -> Result<SemaphorePermit, Error> {
        self.acquire_many(1)
    }

    /// Acquires `n` permits at once, and blocks until there are so many.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn acquire_many(&self, n: u32) -> Result<SemaphorePermit, Error> {
        let acquire = self.inner.acquire_many(n).tuned(&self.options);
        let permit = self.background.wait(acquire)?;
        Ok(SemaphorePermit::new(permit, &self.background))
    }

    /// Acquires a permit if there is one now; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<SemaphorePermit>, Error> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` permits if there are so many now; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire_many(&self, n: u32) -> Result<Option<SemaphorePermit>, Error> {
        let acquire = self.inner.try_acquire_many(n).tuned(&self.options);
        let permit = self.background.wait(acquire)?;
        Ok(permit.map(|permit| SemaphorePermit::new(permit, &self.background)))
    }

    /// Acquires a permit and waits up to `wait`; `None` if there was none.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire_for(&self, wait: Duration) -> Result<Option<SemaphorePermit>, Error> {
        self.try_acquire_many_for(1, wait)
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
    ) -> Result<Option<SemaphorePermit>, Error> {
        let acquire = self.inner.try_acquire_many_for(n, wait);
        let permit = self.background.wait(acquire.tuned(&self.options))?;
        Ok(permit.map(|permit| SemaphorePermit::new(permit, &self.background)))
    }
}
