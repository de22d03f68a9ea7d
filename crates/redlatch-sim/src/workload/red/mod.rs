//! A lock over a majority of independent servers, each of which stops, restarts and loses data by
//! itself.

mod held;
mod mutants;

use std::time::Duration;

use redlatch_core::Lockable;
use redlatch_multi::{RedGuard, RedLock};
use redlatch_reentrant::Lock;

use self::held::Held;
use super::{Acquiring, How, Terms, Work, Worker, Workload, lock};
use crate::{
    mutants::Mutant,
    names::label,
    scripts::{Ran, Seen},
    watch::Waits,
};

/// A lock over a quorum, as a workload.
#[derive(Debug)]
pub(super) struct Quorum;

impl Workload for Quorum {
    fn name(&self) -> &'static str {
        "red"
    }

    fn nodes(&self) -> usize {
        4
    }

    fn round<'a>(&'a self, worker: &'a mut Worker) -> Work<'a> {
        Box::pin(round(worker))
    }

    fn get_on<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a> {
        Box::pin(get_on(worker, name))
    }

    fn seen(&self, ran: &Ran<'_>) -> Vec<Seen> {
        lock::scripts::seen(ran, "reentrant")
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutants::ALL
    }
}

/// Runs one round: thinks, acquires, works under the guard, gives it up.
async fn round(worker: &mut Worker) {
    worker.rest().await;
    let name = worker.rng.index(worker.plan().names);
    let terms = Terms::draw(worker);
    if let Some(held) = acquire(worker, name, &terms).await {
        work(worker, held).await;
    }
}

/// Acquires every name, which every worker must be able to do once all is healed.
async fn get_on(worker: &mut Worker, name: usize) {
    let terms = Terms::patient(worker);
    loop {
        if let Some(held) = acquire(worker, name, &terms).await {
            return held.release(worker).await;
        }
        worker.sleep(20_000).await;
    }
}

async fn acquire(worker: &mut Worker, name: usize, terms: &Terms) -> Option<Held> {
    worker.say(|| terms.tell(name, &worker.owner));
    let future = worker.call(ask(worker, name, terms));
    let proc = worker.life.proc;
    let call = worker.watch().asks(proc, name, Waits::Polling);
    let limit = terms.limit(worker);
    let (guard, _) = worker.awaits(future, &[name], label(name), limit).await;
    let held = guard.map(|guard| Held::new(worker, call, name, nodes(name), guard, terms));
    worker.watch().asked(call);
    held
}

/// Returns the number of servers of a name: three, or all four, where a split may be even.
const fn nodes(name: usize) -> usize {
    if name == 1 { 4 } else { 3 }
}

fn ask(worker: &Worker, name: usize, terms: &Terms) -> Acquiring<RedGuard> {
    let clients = worker.nodes.iter().take(nodes(name));
    let locks: Vec<_> = clients
        .map(|client| Lock::new(client, label(name)))
        .collect();
    let locks: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    let longest = Duration::from_millis(worker.plan().lease);
    let lock = match RedLock::builder(&locks).longest_lease(longest).build() {
        Ok(lock) => lock,
        Err(error) => return Box::pin(async move { Err(error) }),
    };
    acquiring!(
        terms, lock.try_lock(), |wait| lock.try_lock_for(wait), lock.lock();
        .strategy(terms.strategy)
    )
}

async fn work(worker: &mut Worker, held: Held) {
    for _ in 0..worker.rng.below(5) {
        let span = worker.draw_work();
        match worker.rng.below(10) {
            2 => {
                let span = Duration::from_millis(worker.rng.between(50, worker.plan().lease));
                let extended = worker
                    .timed("extend", worker.patience(), held.guard().extend(span))
                    .await;
                worker.say(|| format!("extends by {span:?}: {extended:?}"));
            }
            3 => drop(held.guard().run(worker.think(span)).await),
            _ => worker.think(span).await,
        }
        if held.guard().check().is_err() && worker.rng.chance(800) {
            break;
        }
    }
    held.end(worker).await;
}
