//! The acquisitions of permits. Await a builder to run it.

use std::time::Duration;

use redlatch_core::{Acquire, Held, TryAcquire, TryAcquireFor};

use crate::Pool;

/// An acquisition that waits. Await the builder.
pub type AcquirePermits<G> = Acquire<G>;

/// An acquisition that does not wait. Await the builder. Returns `None` if too few permits are
/// available, or if earlier waiters need them.
pub type TryAcquirePermits<G> = TryAcquire<G>;

/// An acquisition with a bounded wait. Await the builder. Returns `None` if too few permits
/// were available at each check.
pub type TryAcquirePermitsFor<G> = TryAcquireFor<G>;

impl Pool {
    /// Acquires permits, and makes the result of their hold.
    pub fn acquire<G>(&self, permits: u32, wrap: fn(Held) -> G) -> Acquire<G> {
        Acquire::fresh(self.client(), self.primitive(permits), wrap)
    }

    /// The same without a wait.
    pub fn try_acquire<G>(&self, permits: u32, wrap: fn(Held) -> G) -> TryAcquire<G> {
        TryAcquire::fresh(self.client(), self.primitive(permits), wrap)
    }

    /// The same with a bounded wait.
    pub fn try_acquire_for<G>(
        &self,
        permits: u32,
        wrap: fn(Held) -> G,
        wait: Duration,
    ) -> TryAcquireFor<G> {
        TryAcquireFor::fresh(self.client(), self.primitive(permits), wrap, wait)
    }
}
