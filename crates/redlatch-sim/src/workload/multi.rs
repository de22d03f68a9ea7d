//! Several locks held as one: two plain ones and a fair one, in any order.

use std::{ops::Deref, sync::Arc, time::Duration};

use redlatch_core::{Error, HoldState, Lockable, Owner, Released};
use redlatch_fair::{FairLock, FairLockGuard};
use redlatch_multi::{MultiGuard, MultiLock};
use redlatch_reentrant::{Lock, LockGuard};

use super::{
    Acquiring, Guard, How, Terms, Worker, Workload, holding::Delivered, lock, mutants, queued,
    terms::acquiring,
};
use crate::{
    faults::Fault,
    names::{label, name_of},
    watch::{Claim, Id, Sight, Waits},
};

/// Several locks held as one, as a workload.
pub(super) static KIND: Workload = Workload {
    seen: |ran| {
        let mut seen = lock::seen(ran, "reentrant");
        seen.extend(lock::seen(ran, "fair"));
        seen
    },
    waiters: queued,
    ..Workload::new(
        "multi",
        mutants::SEVERAL,
        |worker| Box::pin(round(worker)),
        |worker, _| Box::pin(get_on(worker)),
    )
};

/// Runs one round: thinks, acquires some of the names, works under them, gives them up.
async fn round(worker: &mut Worker) {
    worker.rest().await;
    let names = draw(worker, true);
    if worker.has(Fault::Force) && worker.rng.chance(60) {
        return match names[0] {
            FAIR => FairLockGuard::force(worker, FAIR).await,
            name => LockGuard::force(worker, name).await,
        };
    }
    let own = worker.rng.chance(250);
    let owner = if own {
        worker.owner.clone()
    } else {
        worker.client.owner()
    };
    let terms = Terms::draw(worker);
    if let Some(held) = acquire(worker, &names, &owner, &terms).await {
        work(worker, held).await;
    }
    if !own {
        for name in names {
            worker.leaves_nothing(name, &owner).await;
        }
    }
}

/// Acquires all names as one, which every worker must be able to do once all is healed, in any
/// order of the names.
async fn get_on(worker: &mut Worker) {
    let terms = Terms::patient(worker);
    loop {
        let (names, owner) = (draw(worker, false), worker.client.owner());
        if let Some(held) = acquire(worker, &names, &owner, &terms).await {
            held.write(worker);
            return held.release(worker).await;
        }
        worker.sleep(20_000).await;
    }
}

/// Draws names in any order: all names, or some of them and perhaps one twice.
fn draw(worker: &mut Worker, some: bool) -> Vec<usize> {
    let mut names: Vec<_> = (0..worker.plan().names).collect();
    for at in (1..names.len()).rev() {
        let other = worker.rng.index(at + 1);
        names.swap(at, other);
    }
    if some {
        let most = names.len();
        names.truncate(1 + worker.rng.index(most));
        if worker.rng.chance(100) {
            names.push(names[0]);
        }
    }
    names
}

async fn acquire(
    worker: &mut Worker,
    names: &[usize],
    owner: &Owner,
    terms: &Terms,
) -> Option<Held> {
    let told: Vec<_> = names.iter().map(|&name| label(name)).collect();
    worker.say(|| format!("{} of {}", terms.tell(names[0], owner), told.join(", ")));
    let future = worker.call(ask(worker, names, owner, terms));
    // A waiter for one name that holds another is usually notified too late, so nothing is promised
    // about the hand-off.
    let calls: Vec<_> = names
        .iter()
        .map(|&name| (name, worker.asks(name, Waits::Polling)))
        .collect();
    // Without a total time limit, each member may take as long as one lock alone, and so may the
    // extension of its lease.
    let limit = match terms.how {
        How::Once => worker.patience() * (names.len() as u64 + 1),
        _ => terms.limit(worker),
    };
    let (guard, _) = worker.awaits(future, names, "all", limit).await;
    let held = guard.map(|guard| Held::new(worker, &calls, guard, terms.renewed));
    for (_, call) in calls {
        worker.watch().asked(call);
    }
    held
}

fn ask(worker: &Worker, names: &[usize], owner: &Owner, terms: &Terms) -> Acquiring<MultiGuard> {
    let member = |&name: &usize| -> Box<dyn Lockable> {
        match name {
            FAIR => Box::new(FairLock::new(&worker.client, label(name))),
            name => Box::new(Lock::new(&worker.client, label(name))),
        }
    };
    let members: Vec<_> = names.iter().map(member).collect();
    let members: Vec<_> = members.iter().map(AsRef::as_ref).collect();
    let all = MultiLock::new(&members);
    acquiring!(
        terms, all.try_lock(), |wait| all.try_lock_for(wait), all.lock();
        .owner(owner).strategy(terms.strategy).durability(terms.durability)
    )
}

/// Works under all names, and perhaps enters some again.
async fn work(worker: &mut Worker, held: Held) {
    let mut inner = None;
    for _ in 0..worker.rng.below(5) {
        let span = worker.draw_work();
        match worker.rng.below(10) {
            0 | 1 if inner.is_none() => {
                let (names, owner) = (draw(worker, true), held.owner().clone());
                let terms = Terms {
                    how: How::Once,
                    ..Terms::draw(worker)
                };
                inner = acquire(worker, &names, &owner, &terms).await;
            }
            2 => {
                let span = worker.rng.between(50, worker.plan().lease * 2);
                let span = Duration::from_millis(span);
                let extended: Result<(), Error> = worker
                    .timed("extend", worker.patience(), held.guard().extend(span))
                    .await;
                worker.say(|| format!("extends all by {span:?}: {extended:?}"));
            }
            3 => drop(held.guard().run(worker.think(span)).await),
            _ => worker.think(span).await,
        }
        held.write(worker);
        held.check(worker);
        if held.guard().check().is_err() && worker.rng.chance(800) {
            break;
        }
    }
    let mut all: Vec<_> = inner.into_iter().chain([held]).collect();
    if worker.rng.chance(500) {
        all.reverse();
    }
    for held in all {
        held.end(worker).await;
    }
}

/// A delivered guard of several names.
struct Held {
    given: Delivered<MultiGuard>,
    members: Vec<Shown>,
}

/// One member in the view of the observer.
struct Shown {
    id: Id,
    name: usize,
    token: u64,
    _sight: Arc<Member>,
}

/// One member of a guard.
struct Member {
    guard: Arc<MultiGuard>,
    at: usize,
}

impl Deref for Member {
    type Target = redlatch_core::Held;

    fn deref(&self) -> &Self::Target {
        &self.guard.members()[self.at]
    }
}

impl Held {
    /// Shows a guard to the observer, member by member.
    fn new(worker: &Worker, calls: &[(usize, Id)], guard: MultiGuard, renewed: bool) -> Self {
        // No time has passed since it was returned.
        if let HoldState::Lost(cause) = guard.state() {
            let what = format!(
                "{} is given several as one, and one is lost: {cause}",
                worker.label
            );
            worker.watch().violate("P4", what);
        }
        let guard = Arc::new(guard);
        let members = (0..guard.members().len()).map(|at| {
            let member = Arc::new(Member {
                guard: Arc::clone(&guard),
                at,
            });
            let name = name_of(member.name()).unwrap_or(0);
            let call = calls.iter().find(|(asked, _)| *asked == name);
            let sight: Arc<Member> = Arc::clone(&member);
            let claim = Claim {
                hold: member.token().to_string().into(),
                owner: member.owner().to_string().into(),
                token: Some(member.token().as_u64()),
                ..worker.claim(name, Arc::downgrade(&sight) as Sight, renewed)
            };
            Shown {
                id: worker.shows(call.map_or(0, |&(_, call)| call), claim, member.lost()),
                name,
                token: member.token().as_u64(),
                _sight: member,
            }
        });
        let members: Vec<_> = members.collect();
        let ids = members.iter().map(|member| member.id).collect();
        Self {
            given: Delivered::new(worker, ids, guard),
            members,
        }
    }

    fn owner(&self) -> &Owner {
        self.guard().members()[0].owner()
    }

    fn guard(&self) -> &MultiGuard {
        self.given.guard()
    }

    /// Writes to each name if the guard's check passes, or sends writes that arrive late, after the
    /// check.
    fn write(&self, worker: &mut Worker) {
        let fit = self.guard().check().is_ok();
        let late = worker.rng.chance(100);
        for member in &self.members {
            if fit {
                worker.writes(member.id, member.name, member.token);
            }
            if late {
                let late = worker.rng.between(0, worker.plan().lease * 3000);
                worker.writes_late(late, member.name, member.token);
            }
        }
    }

    /// Checks P4: the loss of one member is the loss of all.
    fn check(&self, worker: &Worker) {
        let lost = |member: &&redlatch_core::Held| matches!(member.state(), HoldState::Lost(_));
        if let Some(member) = self.guard().members().iter().find(lost)
            && self.guard().check().is_ok()
        {
            let (who, name) = (&worker.label, member.name());
            let what = format!("{who} has lost {name}, and all of them are said to be held");
            worker.watch().violate("P4", what);
        }
    }

    /// Gives the guard up in one of the many ways.
    async fn end(self, worker: &mut Worker) {
        let release = |held: Self| held.take().map(|guard| Box::pin(guard.release()));
        if let Some(held) = worker.gives_up(self, release).await {
            held.release(worker).await;
        }
    }

    /// Takes the guard out. It no longer belongs to the holder.
    fn take(self) -> Option<MultiGuard> {
        drop(self.members);
        self.given.take()
    }

    /// Checks P5: releases, and compares the reply for each member with the delivered guards.
    async fn release(self, worker: &Worker) {
        let holds: Vec<_> = self
            .members
            .iter()
            .map(|member| (member.name, member.token.to_string()))
            .collect();
        let Some(guard) = self.take() else { return };
        let companions = || -> Vec<_> {
            let holds = holds.iter();
            holds
                .map(|(name, hold)| worker.watch().companions(*name, hold))
                .collect()
        };
        let before = companions();
        let released = worker
            .timed("release", worker.patience(), guard.release())
            .await;
        let after = companions();
        let released = match released {
            Ok(released) => released,
            Err(error) => return worker.say(|| format!("has not released all: {error}")),
        };
        if released.len() != holds.len() {
            let what = format!("{} members, {} results", holds.len(), released.len());
            worker.watch().violate("P5", what);
        }
        for (at, (name, released)) in released.into_iter().enumerate() {
            let stayed = before[at].intersection(&after[at]).count();
            let left = match released {
                Released::Free => 0,
                Released::StillHeld(left) => left as usize,
                _ => usize::MAX,
            };
            if left < stayed || name_of(&name) != Some(holds[at].0) {
                let (who, of) = (&worker.label, label(holds[at].0));
                let what = format!(
                    "{who} released {of} and is told of {name}: {left} left, {stayed} are out"
                );
                worker.watch().violate("P5", what);
            }
            worker.say(|| format!("has released {name}: {released:?}"));
        }
    }
}

/// The name with a fair lock. The others have plain locks, which one script can acquire together.
const FAIR: usize = 2;
