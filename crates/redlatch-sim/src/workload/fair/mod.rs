//! The fair lock.

mod mutants;
mod order;

use std::time::Duration;

use redlatch_core::{Backoff, Error, Owner, Released, WaitStrategy};
use redlatch_embedded::engine::KeyDump;
use redlatch_fair::{FairLock, FairLockGuard};

use super::{Acquiring, Guard, Holding, How, Terms, Work, Worker, Workload, lock, queued};
use crate::{
    mutants::Mutant,
    names::label,
    scripts::{Ran, Seen},
    watch::Checker,
};

/// The fair lock, as a workload.
#[derive(Debug)]
pub(super) struct Fair;

impl Workload for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    holding_rounds!();

    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
        lock::scripts::seen(ran, "fair")
    }

    fn waiters(&self, key: &KeyDump) -> Vec<String> {
        queued(key)
    }

    fn checkers(&self, names: usize) -> Vec<Box<dyn Checker>> {
        vec![Box::new(order::Order::new(names))]
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutants::ALL
    }
}

impl Holding for Fair {
    type Guard = FairLockGuard;

    const REENTRANT: bool = true;

    fn acquire(
        &self,
        worker: &mut Worker,
        name: usize,
        owner: &Owner,
        terms: &Terms,
    ) -> Acquiring<FairLockGuard> {
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

    fn force<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
        let force = FairLock::new(&worker.client, label(name)).force_release();
        lock::end_by_force(worker, name, force)
    }
}

impl Guard for FairLockGuard {
    async fn release(self) -> Result<Released, Error> {
        Self::release(self).await
    }
}

/// The interval of waiters that poll.
const POLL: Duration = Duration::from_millis(4);
