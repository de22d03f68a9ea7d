//! The plain lock.

mod mutants;
pub(super) mod scripts;

use std::future::IntoFuture;

use redlatch_core::{Error, Owner, Released};
use redlatch_embedded::engine::{Contents, KeyDump};
use redlatch_reentrant::{Lock, LockGuard};

use super::{Acquiring, Guard, Holding, How, Terms, Work, Worker, Workload, holding};
use crate::{
    faults::Fault,
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

    fn round<'a>(&'a self, worker: &'a mut Worker) -> Work<'a> {
        Box::pin(holding::round(self, worker))
    }

    fn get_on<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
        Box::pin(holding::get_on(self, worker, name))
    }

    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
        scripts::seen(ran, "reentrant")
    }

    fn holders(&self, key: &KeyDump, now: u64) -> Vec<String> {
        holder(key, now).into_iter().collect()
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
        macro_rules! with {
            ($builder:expr) => {{
                let builder = $builder.owner(owner).strategy(terms.strategy);
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
            let force = Lock::new(&worker.client, label(name)).force_release();
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

impl Guard for LockGuard {
    async fn release(self) -> Result<Released, Error> {
        Self::release(self).await
    }
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
