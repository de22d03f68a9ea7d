//! The plain lock, and what other locks with one owner at a time share with it.

use std::collections::BTreeSet;

use redlatch_core::{Error, Owner, Released, exclusive::ForceRelease};
use redlatch_embedded::engine::KeyDump;
use redlatch_reentrant::{Lock, LockGuard};

use super::{Acquiring, Guard, Terms, Work, Worker, Workload, field, mutants, terms::acquiring};
use crate::{
    names::{label, name_of},
    scripts::{Ran, Seen},
};

/// The plain lock, as a workload.
pub(super) static KIND: Workload = Workload {
    seen: |ran| seen(ran, "reentrant"),
    ..Workload::of::<LockGuard>("lock", mutants::LOCK)
};

impl Guard for LockGuard {
    const REENTRANT: bool = true;

    fn acquire(worker: &mut Worker, name: usize, owner: &Owner, terms: &Terms) -> Acquiring<Self> {
        let lock = Lock::new(&worker.client, label(name));
        acquiring!(
            terms, lock.try_lock(), |wait| lock.try_lock_for(wait), lock.lock();
            .owner(owner).strategy(terms.strategy).durability(terms.durability)
        )
    }

    fn force(worker: &mut Worker, name: usize) -> Work<'_> {
        let force = Lock::new(&worker.client, label(name)).force_release();
        let limit = worker.patience();
        worker.forces(name, limit, force, ForceRelease::after_lease)
    }

    async fn release(self) -> Result<Released, Error> {
        Self::release(self).await
    }
}

/// Reads the live holder from the key of a lock.
pub(super) fn holder(key: &KeyDump, now: u64) -> Option<String> {
    let until: u64 = field(key, "u")?.parse().ok()?;
    (until > now).then(|| field(key, "o")).flatten()
}

/// Reads a script in the folder `kind`.
pub(super) fn seen(ran: &Ran<'_>, kind: &str) -> Vec<Seen> {
    let (Some(name), Some((folder, script))) = (ran.name(), ran.source.name.split_once('/')) else {
        return Vec::new();
    };
    if folder != kind {
        return Vec::new();
    }
    let seen = match (script, ran.verdict()) {
        ("acquire", "granted") => return granted(ran),
        // The caller asks once, and nobody undoes the attempt.
        ("acquire", "busy") if ran.arg(9).is_empty() => Seen::ended(name, ran.arg(7), false),
        ("renew", "renewed") => Seen::renewed(name, ran.arg(6)),
        ("release", verdict) if !verdict.is_empty() => {
            let freed = verdict == "released" && ran.number(3) == Some(0);
            Seen::ended(name, ran.arg(4), freed)
        }
        ("force", "done") => Seen::Forced {
            name,
            hold: ran.arg(1).to_owned(),
            ended: ran.arg(2) == "now",
            freed: ran.arg(2) == "now",
        },
        ("withdraw", "struck") => return given(ran, name, 3),
        _ => return Vec::new(),
    };
    let report = if script == "force" { 3 } else { 4 };
    [seen].into_iter().chain(given(ran, name, report)).collect()
}

/// Reads the grant that a script has made on behalf of a waiter, from item `at` of its reply on.
pub(super) fn given(ran: &Ran<'_>, name: usize, at: usize) -> Vec<Seen> {
    let granted = ran.text(at) == Some("granted");
    let attempt = ran.text(at + 1).filter(|_| granted);
    let given = attempt.map(|attempt| Seen::given(name, attempt));
    given.into_iter().collect()
}

/// Reads a grant. Several names may be granted at once.
fn granted(ran: &Ran<'_>) -> Vec<Seen> {
    let names: BTreeSet<_> = (1..=ran.keys())
        .filter_map(|at| name_of(ran.key(at)))
        .collect();
    let granted = |name| Seen::granted(name, ran.arg(7));
    names.into_iter().map(granted).collect()
}
