//! The read-write lock.

mod freshness;
mod mutants;
mod scripts;
mod sides;

use std::{future::Future, ops::Deref, pin::Pin};

use redlatch_core::{Durability, Error, Held, Owner, Released};
use redlatch_embedded::engine::KeyDump;
use redlatch_rwlock::{ReadGuard, ReadWriteLock, UpgradableReadGuard, WriteGuard};

use super::{Acquiring, Guard, Holding, How, Terms, Work, Worker, Workload, members};
use crate::{
    mutants::Mutant,
    names::label,
    scripts::{Ran, Seen},
    watch::{Checker, Part},
};

/// The read-write lock, as a workload.
#[derive(Debug)]
pub(super) struct ReadWrite;

/// A guard of either side.
#[derive(Debug)]
pub(super) enum Either {
    Read(ReadGuard),
    Look(UpgradableReadGuard),
    Write(WriteGuard),
}

/// The request of an acquisition.
#[derive(Clone, Copy)]
enum Wish {
    Read,
    Look,
    Write,
    /// A write that is downgraded to a read at once.
    Downgraded,
}

impl Workload for ReadWrite {
    fn name(&self) -> &'static str {
        "rwlock"
    }

    holding_rounds!();

    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
        scripts::seen(ran)
    }

    fn holders(&self, key: &KeyDump, now: u64) -> Vec<String> {
        scripts::holders(key, now)
    }

    fn waiters(&self, key: &KeyDump) -> Vec<String> {
        // Clients count as alive for a while after their last waiter, and the index of readers
        // lags.
        if !key.key.ends_with(b":q") && !key.key.ends_with(b":r") {
            return Vec::new();
        }
        members(key)
    }

    fn checkers(&self, names: usize) -> Vec<Box<dyn Checker>> {
        vec![
            Box::new(freshness::Freshness::new(names)),
            Box::new(sides::Sides::new(names)),
        ]
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutants::ALL
    }
}

/// Tells whether a downgrade keeps this durability. Renewals behind it do not wait for replicas.
fn stays(durability: Durability) -> bool {
    durability == Durability::Master
}

type Begun<G> = Pin<Box<dyn Future<Output = Result<Option<G>, Error>> + Send>>;

impl Holding for ReadWrite {
    type Guard = Either;

    const REENTRANT: bool = true;

    fn acquire(
        &self,
        worker: &mut Worker,
        name: usize,
        owner: &Owner,
        terms: &Terms,
    ) -> Acquiring<Either> {
        let lock = ReadWriteLock::new(&worker.client, label(name));
        let wish = match worker.rng.below(10) {
            0..=3 => Wish::Read,
            4 | 5 => Wish::Look,
            6..=8 => Wish::Write,
            _ => Wish::Downgraded,
        };
        macro_rules! begin {
            ($patient:ident, $once:ident, $bounded:ident) => {
                // A waiter that polls would make all later waiters wait for its next poll.
                acquiring!(
                    terms, lock.$once(), |wait| lock.$bounded(wait), lock.$patient();
                    .owner(owner).durability(terms.durability)
                )
            };
        }
        match wish {
            Wish::Read => {
                let read: Begun<ReadGuard> = begin!(read, try_read, try_read_for);
                Box::pin(async move { Ok(read.await?.map(Either::Read)) })
            }
            Wish::Look => {
                let look: Begun<UpgradableReadGuard> = begin!(
                    upgradable_read,
                    try_upgradable_read,
                    try_upgradable_read_for
                );
                Box::pin(async move { Ok(look.await?.map(Either::Look)) })
            }
            Wish::Write => {
                let write: Begun<WriteGuard> = begin!(write, try_write, try_write_for);
                Box::pin(async move { Ok(write.await?.map(Either::Write)) })
            }
            Wish::Downgraded if terms.how == How::Patiently && stays(terms.durability) => {
                let write: Begun<WriteGuard> = begin!(write, try_write, try_write_for);
                Box::pin(async move {
                    let Some(write) = write.await? else {
                        return Ok(None);
                    };
                    write.downgrade().await.map(|read| Some(Either::Read(read)))
                })
            }
            // A downgrade takes additional time, which a bounded call does not have.
            Wish::Downgraded => {
                let write: Begun<WriteGuard> = begin!(write, try_write, try_write_for);
                Box::pin(async move { Ok(write.await?.map(Either::Write)) })
            }
        }
    }

    fn grow(
        &self,
        worker: &mut Worker,
        guard: &Either,
        terms: &Terms,
    ) -> Option<Acquiring<Either>> {
        let Either::Look(look) = guard else {
            return None;
        };
        if worker.rng.chance(300) {
            return None;
        }
        let write: Begun<WriteGuard> = acquiring!(
            terms, look.try_upgrade(), |wait| look.try_upgrade_for(wait), look.upgrade();
            .durability(terms.durability)
        );
        Some(Box::pin(async move { Ok(write.await?.map(Either::Write)) }))
    }

    fn shrinks(&self, worker: &mut Worker, guard: &Either) -> bool {
        let shrinks = matches!(guard, Either::Write(_)) && worker.rng.chance(250);
        shrinks && stays(worker.plan().durability)
    }

    fn shrink(&self, guard: Either) -> Acquiring<Either> {
        Box::pin(async move {
            let Either::Write(write) = guard else {
                return Ok(None);
            };
            write.downgrade().await.map(|read| Some(Either::Read(read)))
        })
    }

    fn force<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
        Box::pin(async move {
            let lock = ReadWriteLock::new(&worker.client, label(name));
            let force = lock.force_release();
            // The call looks, and then ends each hold that it has found. Each of these steps may
            // take the client's patience.
            let limit = worker.patience() * 4;
            worker
                .forces(name, limit, force, |force| force.after_lease())
                .await;
        })
    }
}

impl Deref for Either {
    type Target = Held;

    fn deref(&self) -> &Held {
        match self {
            Self::Read(guard) => guard,
            Self::Look(guard) => guard,
            Self::Write(guard) => guard,
        }
    }
}

impl Guard for Either {
    async fn release(self) -> Result<Released, Error> {
        match self {
            Self::Read(guard) => guard.release().await,
            Self::Look(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
        }
    }

    fn fence(&self) -> Option<u64> {
        match self {
            Self::Read(_) | Self::Look(_) => None,
            Self::Write(guard) => Some(guard.token().as_u64()),
        }
    }

    fn hold(&self) -> String {
        match self {
            Self::Read(_) | Self::Look(_) => format!("r{}", self.serial()),
            Self::Write(_) => format!("w{}", self.serial()),
        }
    }

    fn part(&self) -> Part {
        match self {
            Self::Read(_) | Self::Look(_) => Part::Shared,
            Self::Write(_) => Part::Whole,
        }
    }
}
