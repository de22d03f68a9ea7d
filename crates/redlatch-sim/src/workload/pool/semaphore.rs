//! The semaphore: an attempt takes several permits, which are renewed, split and released in parts.

use std::ops::Deref;

use redlatch_core::{Error, Held, Renewed, WaitStrategy, family::Portion};
use redlatch_pool::{Flavour, Pool};

use super::size;
use crate::{
    names::{label, name_of},
    watch::Part,
    workload::{Acquiring, Guard, Releases, Terms, Worker, terms::acquiring},
};

/// The guard of permits.
#[derive(Debug)]
pub(super) struct Units(Portion);

impl Guard for Units {
    const REENTRANT: bool = false;

    fn acquire(worker: &mut Worker, names: &[usize], terms: &Terms) -> Acquiring<Self> {
        let size = size(names[0]);
        let pool = Pool::new(&worker.client, FLAVOUR, label(names[0])).size(size);
        let need = 1 + u32::try_from(worker.rng.below(u64::from(size))).unwrap_or(0);
        let sheds = worker.rng.chance(300);
        // A waiter that polls must not be the first where a hand-off is timed.
        let strategy = match size {
            1 => WaitStrategy::Notify,
            _ => terms.strategy,
        };
        let future: Acquiring<Self> = acquiring!(
            terms,
            pool.try_acquire(need, Self::from),
            |wait| pool.try_acquire_for(need, Self::from, wait),
            pool.acquire(need, Self::from);
            .strategy(strategy)
        );
        Box::pin(async move {
            let mut units = future.await?;
            if let Some(Self(portion)) = units.as_mut().filter(|_| sheds) {
                drop(portion.split(1));
            }
            Ok(units)
        })
    }

    async fn release(self) -> Result<Releases, Error> {
        let mut portion = self.0;
        let name = portion.name().to_owned();
        let released = match portion.split(1) {
            // The two releases may arrive in either order.
            Some(part) => {
                let (part, rest) = tokio::join!(part.release(), portion.release());
                part.and(rest)
            }
            None => portion.release().await,
        };
        Ok(vec![(name, released?)])
    }

    fn fence(&self, _: &Held) -> Option<u64> {
        None
    }

    fn hold(&self, held: &Held) -> String {
        held.attempt().to_string()
    }

    fn part(&self) -> Part {
        let of = size(name_of(self.name()).unwrap_or(0));
        Part::Units {
            taken: u64::from(self.0.units()),
            of: u64::from(of),
        }
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

const FLAVOUR: Flavour = Flavour {
    kind: "semaphore",
    stored: "semaphore:1",
    each: false,
};
