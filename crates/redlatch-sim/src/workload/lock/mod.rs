//! The plain lock.

mod mutants;
pub(super) mod scripts;

use redlatch_core::{Error, Owner, Released, exclusive::ForceRelease};
use redlatch_embedded::engine::{Contents, KeyDump};
use redlatch_reentrant::{Lock, LockGuard};

use super::{Acquiring, Guard, Holding, How, Terms, Work, Worker, Workload};
use crate::{
    mutants::Mutant,
    names::label,
    scripts::{Ran, Seen},
};

/// The plain lock, as a workload.
#[derive(Debug)]
pub(super) struct Plain;

impl Workload for Plain {
    fn name(&self) -> &'static str {
        "lock"
    }

    holding_rounds!();

    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
        scripts::seen(ran, "reentrant")
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutants::ALL
    }
}

impl Holding for Plain {
    type Guard = LockGuard;

    const REENTRANT: bool = true;

    fn acquire(
        &self,
        worker: &mut Worker,
        name: usize,
        owner: &Owner,
        terms: &Terms,
    ) -> Acquiring<LockGuard> {
        let lock = Lock::new(&worker.client, label(name));
        acquiring!(
            terms, lock.try_lock(), |wait| lock.try_lock_for(wait), lock.lock();
            .owner(owner).strategy(terms.strategy).durability(terms.durability)
        )
    }

    fn force<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
        let force = Lock::new(&worker.client, label(name)).force_release();
        end_by_force(worker, name, force)
    }
}

impl Guard for LockGuard {
    async fn release(self) -> Result<Released, Error> {
        Self::release(self).await
    }
}

/// Ends a hold by force, at once or after its lease.
pub(super) fn end_by_force(worker: &mut Worker, name: usize, force: ForceRelease) -> Work<'_> {
    Box::pin(async move {
        let limit = worker.patience();
        worker
            .forces(name, limit, force, ForceRelease::after_lease)
            .await;
    })
}

/// Reads the live holder from the key of a lock.
pub(super) fn holder(key: &KeyDump, now: u64) -> Option<String> {
    let Contents::Hash(fields) = &key.contents else {
        return None;
    };
    let field = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let until: u64 = field("u")?.parse().ok()?;
    (until > now).then(|| field("o")).flatten()
}
