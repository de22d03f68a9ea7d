//! The semaphore: an attempt takes several permits, which are renewed, split and released in parts.

use std::ops::Deref;

use redlatch_core::{Error, Held, Owner, Released, Renewed, WaitStrategy, family::Portion};
use redlatch_embedded::engine::KeyDump;
use redlatch_pool::{Flavour, Pool};

use super::{holders, mutants, size};
use crate::{
    mutants::Mutant,
    names::{label, name_of},
    plan::Plan,
    scripts::{Ran, Seen},
    watch::{Checker, Part},
    workload::{Acquiring, Guard, Holding, How, Terms, Work, Worker, Workload},
};

/// The semaphore, as a workload.
#[derive(Debug)]
pub(in crate::workload) struct Semaphore;

/// The guard of permits.
#[derive(Debug)]
pub(in crate::workload) struct Units(Portion);

impl Workload for Semaphore {
    fn name(&self) -> &'static str {
        "semaphore"
    }

    holding_rounds!();

    fn holders(&self, key: &KeyDump, now: u64) -> Vec<String> {
        holders(key, now)
    }

    pool_parts!();

    fn mutants(&self) -> &'static [Mutant] {
        mutants::SEMAPHORE
    }
}

impl Holding for Semaphore {
    type Guard = Units;

    const REENTRANT: bool = false;

    fn acquire(
        &self,
        worker: &mut Worker,
        name: usize,
        _: &Owner,
        terms: &Terms,
    ) -> Acquiring<Units> {
        let size = size(name);
        let pool = Pool::new(&worker.client, FLAVOUR, label(name)).size(size);
        let need = 1 + u32::try_from(worker.rng.below(u64::from(size))).unwrap_or(0);
        let sheds = worker.rng.chance(300);
        // A waiter that polls must not be the first where a hand-off is timed.
        let strategy = if size == 1 {
            WaitStrategy::Notify
        } else {
            terms.strategy
        };
        let future: Acquiring<Units> = acquiring!(
            terms,
            pool.try_acquire(need, Units::from),
            |wait| pool.try_acquire_for(need, Units::from, wait),
            pool.acquire(need, Units::from);
            .strategy(strategy)
        );
        Box::pin(async move {
            let mut units = future.await?;
            if let Some(Units(portion)) = units.as_mut().filter(|_| sheds) {
                drop(portion.split(1));
            }
            Ok(units)
        })
    }

    fn force<'a>(&'a self, worker: &'a mut Worker, _: usize) -> Work<'a> {
        // The semaphore has no release by force.
        Box::pin(async { worker.think(1_000).await })
    }
}

impl Renewed for Units {}

impl From<Held> for Units {
    fn from(held: Held) -> Self {
        Self(Portion::new(held))
    }
}

impl Deref for Units {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}

impl Guard for Units {
    async fn release(self) -> Result<Released, Error> {
        let mut portion = self.0;
        let Some(part) = portion.split(1) else {
            return portion.release().await;
        };
        // The two releases may arrive in either order.
        let (part, rest) = tokio::join!(part.release(), portion.release());
        part.and(rest)
    }

    fn fence(&self) -> Option<u64> {
        None
    }

    fn hold(&self) -> String {
        self.attempt().to_string()
    }

    fn part(&self) -> Part {
        let of = size(name_of(self.name()).unwrap_or(0));
        Part::Units {
            taken: u64::from(self.0.units()),
            of: u64::from(of),
        }
    }
}

const FLAVOUR: Flavour = Flavour {
    kind: "semaphore",
    stored: "semaphore:1",
    each: false,
};
