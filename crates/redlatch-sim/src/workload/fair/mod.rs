//! The fair lock.

mod order;

use std::time::Duration;

use redlatch_core::{Backoff, Error, Owner, Released, WaitStrategy, exclusive::ForceRelease};
use redlatch_fair::{FairLock, FairLockGuard};

use super::{
    Acquiring, Guard, Terms, Work, Worker, Workload, lock, mutants, queued, terms::acquiring,
};
use crate::names::label;

/// The fair lock, as a workload.
pub(super) static KIND: Workload = Workload {
    seen: |ran| lock::seen(ran, "fair"),
    waiters: queued,
    checkers: |names| vec![Box::new(order::Order::new(names))],
    ..Workload::of::<FairLockGuard>("fair", mutants::FAIR_LOCK)
};

impl Guard for FairLockGuard {
    const REENTRANT: bool = true;

    fn acquire(worker: &mut Worker, name: usize, owner: &Owner, terms: &Terms) -> Acquiring<Self> {
        let lock = FairLock::new(&worker.client, label(name));
        // All waiters behind one that polls proceed at its pace, by which the hand-off is measured.
        let strategy = match terms.strategy {
            WaitStrategy::Poll(_) => WaitStrategy::Poll(Backoff::constant(POLL)),
            notify => notify,
        };
        acquiring!(
            terms, lock.try_lock(), |wait| lock.try_lock_for(wait), lock.lock();
            .owner(owner).strategy(strategy).durability(terms.durability)
        )
    }

    fn force(worker: &mut Worker, name: usize) -> Work<'_> {
        let force = FairLock::new(&worker.client, label(name)).force_release();
        let limit = worker.patience();
        worker.forces(name, limit, force, ForceRelease::after_lease)
    }

    async fn release(self) -> Result<Released, Error> {
        Self::release(self).await
    }
}

/// The interval of waiters that poll.
const POLL: Duration = Duration::from_millis(4);
