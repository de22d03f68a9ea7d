//! Permits with an id: granted, extended, passed to another task, released or left to their lease.

use redlatch_core::{Error, WaitStrategy};
use redlatch_embedded::engine::KeyDump;
use redlatch_permits::{PermitExpirableSemaphore, PermitId, PermitRelease};

use super::{holders, size};
use crate::{
    faults::Fault,
    names::label,
    record::{self, Record},
    watch::Waits,
    workload::{Acquiring, Worker, terms::ms},
};

/// Returns the holders without their owners. A finished worker may have left permits to their
/// lease, so only permits that outlast it count.
pub(super) fn nameless(key: &KeyDump, now: u64) -> Vec<String> {
    let holders = holders(key, now).into_iter();
    let nameless = |hold: String| match hold.split_once(':') {
        Some((_, number)) => format!("permit {number}"),
        None => hold,
    };
    holders.map(nameless).collect()
}

fn permits(worker: &Worker, name: usize) -> PermitExpirableSemaphore {
    let semaphore = PermitExpirableSemaphore::new(&worker.client, label(name));
    semaphore.permits_if_unset(size(name))
}

pub(super) async fn round(worker: &mut Worker) {
    worker.think_up_to(&[50_000]).await;
    let name = worker.rng.index(worker.plan.names);
    let need = 1 + u32::try_from(worker.rng.below(u64::from(size(name)))).unwrap_or(0);
    let lease = ms(worker.rng.between(60, worker.plan.lease));
    let wait = worker.rng.between(0, worker.plan.lease * 2);
    let semaphore = permits(worker, name);
    worker.say(|| format!("asks for {need} permits of {} for {lease:?}", label(name)));
    let (waits, limit, future): (_, _, Acquiring<Vec<PermitId>>) = match worker.rng.below(4) {
        0 => {
            let future = semaphore.try_acquire_many(need).lease(lease).into_future();
            (Waits::Briefly, worker.patience(), future)
        }
        1 => {
            let future = semaphore.try_acquire_many_for(need, ms(wait)).lease(lease);
            let limit = worker.limit(ms(wait));
            (Waits::Briefly, limit, future.into_future())
        }
        _ => {
            let future = semaphore.acquire_many(need).lease(lease).into_future();
            let future: Acquiring<_> = Box::pin(async move { future.await.map(Some) });
            (Waits::Patiently, u64::MAX, future)
        }
    };
    let calls = worker.asks(&[name], waits);
    let taken = worker.calls(&[name], "acquire", limit, future).await;
    worker.asked(&calls);
    match taken {
        Some(Ok(Some(ids))) => {
            worker.watch.granted();
            let from = worker.exec.now();
            work(worker, name, ids, from).await;
        }
        Some(other) => worker.say(|| format!("gets none of {}: {other:?}", label(name))),
        None => {}
    }
}

/// Works under permits, which it has since `from`, and releases those that it does not leave to
/// their lease.
async fn work(worker: &mut Worker, name: usize, mut ids: Vec<PermitId>, from: u64) {
    let semaphore = permits(worker, name);
    let longest = worker.plan.lease * 500;
    worker.think_up_to(&[longest]).await;
    if worker.rng.chance(300) {
        let span = ms(worker.rng.between(50, worker.plan.lease));
        let extending = semaphore.extend(&ids[0], span);
        let extended = worker.briefly("extend", extending).await;
        let (id, of) = (&ids[0], label(name));
        worker.say(|| format!("extends {id} of {of} by {span:?}: {extended:?}"));
    }
    // P7 assumes that holders who live release. Each permit left to its lease delays all waiters by
    // that lease, so none is left once all is healed.
    if worker.rng.chance(150) && !worker.is_healed() {
        ids.pop();
    }
    let (releasing, until) = (semaphore.release_all(&ids), worker.exec.now());
    let released = worker.briefly("release", releasing).await;
    worker.say(|| format!("gives back {} of {}: {released:?}", ids.len(), label(name)));
    for outcome in released.iter().flatten() {
        // A permit that comes back lasted until then.
        if *outcome == PermitRelease::Released {
            tell(worker, name, from, until);
        }
    }
    if released.is_ok() {
        stay_back(worker, &semaphore, &ids).await;
    }
}

/// Tells the judge of histories of a permit.
fn tell(worker: &Worker, name: usize, from: u64, until: u64) {
    worker.watch.tells(|history| {
        let hold = history.hold(worker.proc, name, from);
        history.add(&Record::Hold(record::Hold {
            limit: size(name),
            until,
            ..hold
        }));
    });
}

/// Checks P10: released permits stay released, whatever copies arrive.
async fn stay_back(worker: &mut Worker, semaphore: &PermitExpirableSemaphore, ids: &[PermitId]) {
    if worker.rng.chance(800) || worker.has(Fault::LossyFailover) {
        return;
    }
    worker.think_up_to(&[6_000_000]).await;
    for id in ids {
        if let Ok(Some(left)) = semaphore.remaining(id).await {
            let what = format!("{id} was given back and lasts {left:?} again");
            worker.watch.violate("P10", what);
        }
    }
}

pub(super) async fn get_on(worker: &mut Worker, name: usize) -> bool {
    let semaphore = permits(worker, name);
    let calls = worker.asks(&[name], Waits::Patiently);
    let waiting = semaphore.acquire().lease(ms(worker.plan.lease));
    let taken: Result<PermitId, Error> = waiting.strategy(WaitStrategy::Notify).await;
    worker.asked(&calls);
    match &taken {
        Ok(id) => {
            worker.watch.granted();
            let released = semaphore.release(id).await;
            worker.say(|| format!("is done with {id} of {}: {released:?}", label(name)));
        }
        Err(error) => worker.say(|| format!("gets no answer for {}: {error}", label(name))),
    }
    taken.is_ok()
}
