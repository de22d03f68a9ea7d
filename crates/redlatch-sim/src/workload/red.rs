//! A lock over a majority of independent servers, each of which stops, restarts and loses data by
//! itself.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use redlatch_core::{HoldState, Lockable, LossCause, Moment};
use redlatch_multi::{RedGuard, RedLock};
use redlatch_reentrant::Lock;

use super::{
    Acquiring, Terms, Worker, Workload, holding::Delivered, lock, mutants, terms::acquiring,
};
use crate::{
    exec,
    names::label,
    watch::{Claim, GRAIN, Id, Sight, Sighted, Waits},
};

/// A lock over a quorum, as a workload.
pub(super) static KIND: Workload = Workload {
    nodes: 4,
    seen: |ran| lock::seen(ran, "reentrant"),
    ..Workload::new(
        "red",
        mutants::QUORUM,
        |worker| Box::pin(round(worker)),
        |worker, name| Box::pin(get_on(worker, name)),
    )
};

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
            return release(worker, held).await;
        }
        worker.sleep(20_000).await;
    }
}

async fn acquire(worker: &mut Worker, name: usize, terms: &Terms) -> Option<Delivered<Quorum>> {
    worker.say(|| terms.tell(name, &worker.owner));
    let future = worker.call(ask(worker, name, terms));
    let call = worker.asks(name, Waits::Polling);
    let limit = terms.limit(worker);
    let (guard, _) = worker.awaits(future, &[name], label(name), limit).await;
    let held = guard.map(|guard| delivered(worker, call, name, guard, terms));
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

async fn work(worker: &mut Worker, held: Delivered<Quorum>) {
    for _ in 0..worker.rng.below(5) {
        let span = worker.draw_work();
        match worker.rng.below(10) {
            2 => {
                let span = Duration::from_millis(worker.rng.between(50, worker.plan().lease));
                let extended = worker
                    .timed("extend", worker.patience(), held.guard().guard.extend(span))
                    .await;
                worker.say(|| format!("extends by {span:?}: {extended:?}"));
            }
            3 => drop(held.guard().guard.run(worker.think(span)).await),
            _ => worker.think(span).await,
        }
        if held.guard().guard.check().is_err() && worker.rng.chance(800) {
            break;
        }
    }
    let release_early = |held: Delivered<Quorum>| {
        let quorum = held.take();
        quorum.map(|quorum| Box::pin(quorum.guard.release()))
    };
    if let Some(held) = worker.gives_up(held, release_early).await {
        release(worker, held).await;
    }
}

async fn release(worker: &Worker, held: Delivered<Quorum>) {
    if let Some(Quorum { guard, .. }) = held.take() {
        let released = worker
            .timed("release", worker.patience(), guard.release())
            .await;
        worker.say(|| format!("has released: {released:?}"));
    }
}

/// The guard in the view of the observer: each node by itself, and the number of nodes that are
/// left.
#[derive(Debug)]
struct Quorum {
    guard: RedGuard,
    needed: usize,
    /// Per node, the time at which its hold was first seen lost before its deadline.
    lost: Mutex<Vec<Option<Moment>>>,
}

/// Shows a guard to the observer.
fn delivered(
    worker: &Worker,
    call: Id,
    name: usize,
    guard: RedGuard,
    terms: &Terms,
) -> Delivered<Quorum> {
    let nodes = nodes(name);
    let needed = nodes / 2 + 1;
    let granted = guard.holds().len();
    if granted < needed {
        let (who, name) = (&worker.label, label(name));
        let what = format!("{who} is given {name} by {granted} of {nodes} nodes");
        worker.watch().violate("P1", what);
    }
    let owner = guard.holds().first().map(|held| held.owner().to_string());
    let owner: Arc<str> = owner.unwrap_or_default().into();
    let lost = guard.lost();
    let sight = Arc::new(Quorum {
        needed,
        lost: Mutex::new(vec![None; granted]),
        guard,
    });
    let seen: Arc<Quorum> = Arc::clone(&sight);
    let claim = Claim {
        hold: Arc::clone(&owner),
        owner,
        ..worker.claim(name, Arc::downgrade(&seen) as Sight, terms.renewed)
    };
    let id = worker.shows(call, claim, lost);
    Delivered::new(worker, vec![id], sight)
}

impl Sighted for Quorum {
    /// Returns the deadline of the node that completes the quorum. A node whose hold was lost
    /// before its deadline counts until the loss was seen. The state is not read near a deadline,
    /// because that might tell the holder.
    fn valid_until(&self) -> Moment {
        let mut lost = exec::lock(&self.lost);
        let holds = self.guard.holds().iter().zip(lost.iter_mut());
        let mut ends: Vec<_> = holds
            .map(|(held, lost)| {
                let (now, until) = (held.client().now(), held.valid_until());
                let near = until <= now + Duration::from_micros(GRAIN);
                if !near && lost.is_none() && matches!(held.state(), HoldState::Lost(_)) {
                    *lost = Some(now);
                }
                lost.map_or(until, |lost| lost.min(until))
            })
            .collect();
        ends.sort_unstable();
        let at = ends.len().checked_sub(self.needed);
        at.map_or(Moment::from_origin(Duration::ZERO), |at| ends[at])
    }

    fn state(&self) -> HoldState {
        let now = self.guard.holds().first().map(|held| held.client().now());
        if now.is_some_and(|now| now < self.valid_until()) {
            HoldState::Held
        } else {
            HoldState::Lost(LossCause::Expired)
        }
    }
}
