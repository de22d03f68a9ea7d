//! A lock over a majority of independent servers, each of which stops, restarts and loses data by
//! itself.

mod held;
mod mutants;

use std::{future::IntoFuture, time::Duration};

use redlatch_core::Lockable;
use redlatch_embedded::engine::KeyDump;
use redlatch_multi::{RedGuard, RedLock};
use redlatch_reentrant::Lock;

use self::held::Held;
use super::{Acquiring, How, Terms, Work, Worker, Workload, lock};
use crate::{
    faults::Fault,
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

    fn holders(&self, key: &KeyDump, now: u64) -> Vec<String> {
        lock::holder(key, now).into_iter().collect()
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutants::ALL
    }
}

/// Runs one round: thinks, acquires, works under the guard, gives it up.
async fn round(worker: &mut Worker) {
    let think = match worker.rng.below(10) {
        0 => worker.rng.between(0, worker.plan().lease * 1500),
        1..=4 => 0,
        _ => worker.rng.between(0, 50_000),
    };
    worker.think(think).await;
    let name = worker.rng.index(worker.plan().names);
    let terms = Terms::draw(worker);
    if let Some(held) = acquire(worker, name, &terms).await {
        work(worker, held).await;
    }
}

/// Acquires every name, which every worker must be able to do once all is healed.
async fn get_on(worker: &mut Worker, name: usize) {
    let terms = Terms {
        how: How::Patiently,
        renewed: true,
        lease: Duration::from_millis(worker.plan().lease),
        strategy: redlatch_core::WaitStrategy::Notify,
    };
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
    let result = if worker.has(Fault::Cancel) && worker.rng.chance(200) {
        worker.cancelled(future, name).await
    } else {
        let limit = terms.limit(worker);
        Some(worker.timed("acquire", limit, future).await)
    };
    let held = match result {
        Some(Ok(Some(guard))) => Some(Held::new(worker, call, name, nodes(name), guard, terms)),
        Some(Ok(None)) => {
            worker.say(|| format!("does not get {}", label(name)));
            None
        }
        Some(Err(error)) => {
            worker.say(|| format!("fails to get {}: {error}", label(name)));
            None
        }
        None => None,
    };
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
    macro_rules! with {
        ($builder:expr) => {{
            let builder = $builder.strategy(terms.strategy);
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

async fn work(worker: &mut Worker, held: Held) {
    let lease = worker.plan().lease * 1000;
    for _ in 0..worker.rng.below(5) {
        let span = match worker.rng.below(20) {
            0 => worker.rng.between(0, lease * 3),
            1..=3 => worker.rng.between(0, lease),
            _ => worker.rng.between(0, 20_000),
        };
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
