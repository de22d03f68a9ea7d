//! The read-write lock.

mod sides;

use std::ops::Deref;

use redlatch_core::{Durability, Error, Held, family::Wait};
use redlatch_embedded::engine::{Contents, KeyDump};
use redlatch_rwlock::{ReadGuard, ReadWriteLock, UpgradableReadGuard, WriteGuard};

use self::sides::{Freshness, Sides};
use super::{
    Acquiring, Guard, Releases, Terms, Work, Worker, Workload, lock, mutants, terms::acquiring,
};
use crate::{
    names::label,
    watch::{Part, each},
};

/// The read-write lock, as a workload.
pub(super) static KIND: Workload = Workload {
    holders,
    checkers: |_| vec![each::<Freshness>(), each::<Sides>()],
    ..Workload::of::<Either>("rwlock", mutants::READ_WRITE)
};

/// A guard of either side.
#[derive(Debug)]
pub(super) enum Either {
    Read(ReadGuard),
    Look(UpgradableReadGuard),
    Write(WriteGuard),
}

/// Tells whether a downgrade keeps this durability. Renewals behind it do not wait for replicas.
fn stays(durability: Durability) -> bool {
    durability == Durability::Master
}

impl Guard for Either {
    const REENTRANT: bool = true;

    fn acquire(worker: &mut Worker, names: &[usize], terms: &Terms) -> Acquiring<Self> {
        let lock = ReadWriteLock::new(&worker.client, label(names[0]));
        macro_rules! begin {
            ($patient:ident, $once:ident, $bounded:ident) => {
                // A waiter that polls would make all later waiters wait for its next poll.
                acquiring!(
                    terms, lock.$once(), |wait| lock.$bounded(wait), lock.$patient();
                    .owner(&terms.owner).durability(worker.plan.durability)
                )
            };
        }
        match worker.rng.below(10) {
            0..=3 => {
                let read: Acquiring<ReadGuard> = begin!(read, try_read, try_read_for);
                Box::pin(async move { Ok(read.await?.map(Self::Read)) })
            }
            4 | 5 => {
                let look: Acquiring<UpgradableReadGuard> = begin!(
                    upgradable_read,
                    try_upgradable_read,
                    try_upgradable_read_for
                );
                Box::pin(async move { Ok(look.await?.map(Self::Look)) })
            }
            wish => {
                // A downgrade takes additional time, which a bounded call does not have.
                let turns =
                    wish == 9 && terms.how == Wait::Forever && stays(worker.plan.durability);
                let write: Acquiring<WriteGuard> = begin!(write, try_write, try_write_for);
                Box::pin(async move {
                    match write.await? {
                        Some(write) if turns => write.downgrade().await.map(Self::Read).map(Some),
                        write => Ok(write.map(Self::Write)),
                    }
                })
            }
        }
    }

    fn grow(&self, worker: &mut Worker, terms: &Terms) -> Option<Acquiring<Self>> {
        let Self::Look(look) = self else {
            return None;
        };
        if worker.rng.chance(300) {
            return None;
        }
        let write: Acquiring<WriteGuard> = acquiring!(
            terms, look.try_upgrade(), |wait| look.try_upgrade_for(wait), look.upgrade();
            .durability(worker.plan.durability)
        );
        Some(Box::pin(async move { Ok(write.await?.map(Self::Write)) }))
    }

    fn shrinks(&self, worker: &mut Worker) -> bool {
        let shrinks = matches!(self, Self::Write(_)) && worker.rng.chance(250);
        shrinks && stays(worker.plan.durability)
    }

    fn shrink(self) -> Acquiring<Self> {
        Box::pin(async move {
            let Self::Write(write) = self else {
                return Ok(None);
            };
            write.downgrade().await.map(Self::Read).map(Some)
        })
    }

    fn force(worker: &mut Worker, name: usize) -> Work<'_> {
        let force = ReadWriteLock::new(&worker.client, label(name)).force_release();
        worker.forces(name, force, |force| force.after_lease())
    }

    async fn release(self) -> Result<Releases, Error> {
        let name = self.name().to_owned();
        let released = match self {
            Self::Read(guard) => guard.release().await,
            Self::Look(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
        };
        Ok(vec![(name, released?)])
    }

    fn fence(&self, held: &Held) -> Option<u64> {
        matches!(self, Self::Write(_)).then(|| held.token().as_u64())
    }

    fn hold(&self, held: &Held) -> String {
        let side = match self {
            Self::Write(_) => 'w',
            _ => 'r',
        };
        format!("{side}{}", held.serial())
    }

    fn part(&self) -> Part {
        match self {
            Self::Read(_) | Self::Look(_) => Part::Shared,
            Self::Write(_) => Part::Whole,
        }
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

/// Reads the live holders from the keys of a lock.
fn holders(key: &KeyDump, now: u64) -> Vec<String> {
    let Contents::Hash(fields) = &key.contents else {
        return Vec::new();
    };
    let lives = |until: &[u8]| {
        let until = std::str::from_utf8(until).ok();
        until.is_some_and(|until| until.parse::<u64>().is_ok_and(|until| until > now))
    };
    let readers = fields.iter().filter_map(|(field, hold)| {
        let owner = String::from_utf8_lossy(field.strip_prefix(b"r")?).into_owned();
        lives(hold.get(..13)?).then_some(owner)
    });
    lock::holder(key, now).into_iter().chain(readers).collect()
}
