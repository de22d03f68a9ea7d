//! Locks with one owner at a time: the plain lock, the fair lock, and several of them held as one.

use std::{convert::identity, time::Duration};

use redlatch_core::{
    Backoff, Error, Held, HoldState, Lockable, Owner, WaitStrategy, exclusive::ForceRelease,
    family::Wait,
};
use redlatch_embedded::engine::KeyDump;
use redlatch_fair::{FairLock, FairLockGuard};
use redlatch_multi::{MultiGuard, MultiLock};
use redlatch_reentrant::{Lock, LockGuard};

use super::{
    Acquiring, Guard, Releases, Terms, Work, Worker, Workload, field, mutants, order::Order,
    terms::acquiring,
};
use crate::{
    names::label,
    watch::{Waits, each},
};

/// The plain lock, as a workload.
pub(super) static LOCK: Workload = Workload::of::<LockGuard>("lock", mutants::LOCK);

/// Makes the guards of these locks guards of the simulator. The function changes the strategy by
/// which they wait.
macro_rules! locks {
    ($($lock:ident, $guard:ident, $strategy:expr;)*) => {$(
        impl Guard for $guard {
            const REENTRANT: bool = true;

            fn acquire(worker: &mut Worker, names: &[usize], terms: &Terms) -> Acquiring<Self> {
                let lock = $lock::new(&worker.client, label(names[0]));
                let strategy = $strategy(terms.strategy);
                acquiring!(
                    terms, lock.try_lock(), |wait| lock.try_lock_for(wait), lock.lock();
                    .owner(&terms.owner).strategy(strategy).durability(worker.plan.durability)
                )
            }

            fn force(worker: &mut Worker, name: usize) -> Work<'_> {
                let force = $lock::new(&worker.client, label(name)).force_release();
                worker.forces(name, force, ForceRelease::after_lease)
            }

            async fn release(self) -> Result<Releases, Error> {
                let name = self.name().to_owned();
                Ok(vec![(name, Self::release(self).await?)])
            }
        }
    )*};
}

locks! {
    Lock, LockGuard, identity;
    FairLock, FairLockGuard, polls_quickly;
}

/// All waiters behind one that polls proceed at its pace, by which the hand-off is measured.
fn polls_quickly(strategy: WaitStrategy) -> WaitStrategy {
    match strategy {
        WaitStrategy::Poll(_) => WaitStrategy::Poll(Backoff::constant(POLL)),
        notify => notify,
    }
}

/// Reads the live holder from the key of a lock.
pub(super) fn holder(key: &KeyDump, now: u64) -> Option<String> {
    let until: u64 = field(key, "u")?.parse().ok()?;
    (until > now).then(|| field(key, "o")).flatten()
}

/// The fair lock, as a workload.
pub(super) static FAIR: Workload = Workload {
    checkers: |_| vec![each::<Order>()],
    ..Workload::of::<FairLockGuard>("fair", mutants::FAIR_LOCK)
};

/// The interval of waiters that poll.
const POLL: Duration = Duration::from_millis(4);

/// Several locks held as one, as a workload.
pub(super) static MULTI: Workload = Workload::of::<MultiGuard>("multi", mutants::SEVERAL);

impl Guard for MultiGuard {
    const REENTRANT: bool = true;

    /// Draws names in any order: all names, or some of them and perhaps one twice.
    fn names(worker: &mut Worker, wanted: Option<usize>) -> Vec<usize> {
        let mut names: Vec<_> = (0..worker.plan.names).collect();
        for at in (1..names.len()).rev() {
            let other = worker.rng.index(at + 1);
            names.swap(at, other);
        }
        if wanted.is_none() {
            let most = names.len();
            names.truncate(1 + worker.rng.index(most));
            if worker.rng.chance(100) {
                names.push(names[0]);
            }
        }
        names
    }

    fn acquire(worker: &mut Worker, names: &[usize], terms: &Terms) -> Acquiring<Self> {
        let member = |&name: &usize| -> Box<dyn Lockable> {
            match name {
                FAIR_NAME => Box::new(FairLock::new(&worker.client, label(name))),
                name => Box::new(Lock::new(&worker.client, label(name))),
            }
        };
        let members: Vec<_> = names.iter().map(member).collect();
        let members: Vec<_> = members.iter().map(AsRef::as_ref).collect();
        let all = MultiLock::new(&members);
        acquiring!(
            terms, all.try_lock(), |wait| all.try_lock_for(wait), all.lock();
            .owner(&terms.owner).strategy(terms.strategy).durability(worker.plan.durability)
        )
    }

    /// A waiter for one name that holds another is usually notified too late, so nothing is
    /// promised about the hand-off.
    fn waits(_: &Terms) -> Waits {
        Waits::Polling
    }

    /// Holders that waited for each other would never get on.
    fn inner(worker: &mut Worker, _: usize, owner: &Owner) -> (Vec<usize>, Terms) {
        let mut terms = Terms::draw(worker, owner);
        terms.how = Wait::Never;
        (Self::names(worker, None), terms)
    }

    fn force(worker: &mut Worker, name: usize) -> Work<'_> {
        match name {
            FAIR_NAME => FairLockGuard::force(worker, FAIR_NAME),
            name => LockGuard::force(worker, name),
        }
    }

    async fn release(self) -> Result<Releases, Error> {
        Self::release(self).await
    }

    /// Checks P4: the loss of one member is the loss of all. None is lost as the guard is returned.
    fn judge(&self, worker: &Worker, is_new: bool) {
        let lost = |member: &&Held| matches!(member.state(), HoldState::Lost(_));
        if let Some(member) = self.members().iter().find(lost)
            && (is_new || self.check().is_ok())
        {
            let (who, name) = (&worker.label, member.name());
            let what = format!("{who} has lost {name}, and all of them are said to be held");
            worker.watch.violate("P4", what);
        }
    }
}

/// The name with a fair lock. The others have plain locks, which one script can acquire together.
const FAIR_NAME: usize = 2;
