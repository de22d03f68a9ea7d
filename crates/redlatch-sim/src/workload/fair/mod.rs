//! The fair lock.

mod mutants;
mod order;

use std::{future::IntoFuture, time::Duration};

use redlatch_core::{Backoff, Error, Owner, Released, WaitStrategy};
use redlatch_embedded::engine::{Contents, KeyDump};
use redlatch_fair::{FairLock, FairLockGuard};

use super::{Acquiring, Guard, Holding, How, Terms, Work, Worker, Workload, holding, lock};
use crate::{
    faults::Fault,
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

    fn round<'a>(&'a self, worker: &'a mut Worker) -> Work<'a> {
        Box::pin(holding::round(self, worker))
    }

    fn get_on<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
        Box::pin(holding::get_on(self, worker, name))
    }

    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
        lock::scripts::seen(ran, "fair")
    }

    fn holders(&self, key: &KeyDump, now: u64) -> Vec<String> {
        lock::holder(key, now).into_iter().collect()
    }

    /// Returns the queue. The set of clients only records until when each client counts as alive.
    fn waiters(&self, key: &KeyDump) -> Vec<String> {
        let Contents::SortedSet(members) = &key.contents else {
            return Vec::new();
        };
        let members = members
            .iter()
            .map(|(member, _)| String::from_utf8_lossy(member).into_owned());
        members.filter(|member| member.contains(' ')).collect()
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
        macro_rules! with {
            ($builder:expr) => {{
                let builder = $builder.owner(owner).strategy(strategy);
                let builder = if terms.renewed {
                    builder.renewed_lease(terms.lease)
                } else {
                    builder.lease(terms.lease)
                };
                builder.into_future()
            }};
        }
        match terms.how {
            How::Once => with!(lock.try_lock()),
            How::For(wait) => with!(lock.try_lock_for(wait)),
            How::Patiently => {
                let future = with!(lock.lock());
                Box::pin(async move { future.await.map(Some) })
            }
        }
    }

    fn force<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
        Box::pin(async move {
            let force = FairLock::new(&worker.client, label(name)).force_release();
            let gentle = worker.rng.chance(500);
            let force = if gentle { force.after_lease() } else { force };
            worker.inject(Fault::Force, || {
                format!("releases {} by force", label(name))
            });
            let limit = worker.patience();
            let forced = worker
                .timed("force_release", limit, force.into_future())
                .await;
            worker.say(|| format!("has forced {}: {forced:?}", label(name)));
        })
    }
}

impl Guard for FairLockGuard {
    async fn release(self) -> Result<Released, Error> {
        Self::release(self).await
    }
}

/// The interval of waiters that poll.
const POLL: Duration = Duration::from_millis(4);
