//! Several locks held as one: two plain ones and a fair one, in any order.

mod held;
mod mutants;

use redlatch_core::{Error, Lockable, Owner};
use redlatch_embedded::engine::KeyDump;
use redlatch_fair::FairLock;
use redlatch_multi::{MultiGuard, MultiLock};
use redlatch_reentrant::Lock;

use self::held::Held;
use super::{Acquiring, Holding, How, Terms, Work, Worker, Workload, fair, lock};
use crate::{
    faults::Fault,
    mutants::Mutant,
    names::label,
    scripts::{Ran, Seen},
    watch::Waits,
};

/// Several locks held as one, as a workload.
#[derive(Debug)]
pub(super) struct Several;

impl Workload for Several {
    fn name(&self) -> &'static str {
        "multi"
    }

    fn round<'a>(&'a self, worker: &'a mut Worker) -> Work<'a> {
        Box::pin(round(worker))
    }

    fn get_on<'a>(&'a self, worker: &'a mut Worker, _: usize) -> Work<'a> {
        Box::pin(get_on(worker))
    }

    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
        let plain = lock::scripts::seen(ran, "reentrant");
        let fair = lock::scripts::seen(ran, "fair");
        plain.into_iter().chain(fair).collect()
    }

    fn waiters(&self, key: &KeyDump) -> Vec<String> {
        fair::Fair.waiters(key)
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutants::ALL
    }
}

/// Runs one round: thinks, acquires some of the names, works under them, gives them up.
async fn round(worker: &mut Worker) {
    worker.rest().await;
    let names = draw(worker, true);
    if worker.has(Fault::Force) && worker.rng.chance(60) {
        return match names[0] {
            FAIR => fair::Fair.force(worker, names[0]).await,
            name => lock::Plain.force(worker, name).await,
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
    let proc = worker.life.proc;
    // A waiter for one name that holds another is usually notified too late, so nothing is promised
    // about the hand-off.
    let calls: Vec<_> = names
        .iter()
        .map(|&name| (name, worker.watch().asks(proc, name, Waits::Polling)))
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
                let span = std::time::Duration::from_millis(span);
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

/// The name with a fair lock. The others have plain locks, which one script can acquire together.
const FAIR: usize = 2;
