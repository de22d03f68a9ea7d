//! The life of guards of every kind: acquire, hold, re-enter, extend, give up half-way, release,
//! ignore a loss.

use std::{future::Future, pin::Pin, sync::Arc};

use redlatch_core::{Error, Owner, Released};

use super::{
    Guard, Terms, Work, Worker,
    steps::{End, Waited},
    terms::ms,
    worker::fragile,
};
use crate::{
    faults::Fault,
    names::{label, name_of},
    watch::{Id, Waits, Watch},
};

/// A kind whose acquisitions return guards.
pub trait Holding: Sync {
    /// The guard.
    type Guard: Guard;

    /// Whether an owner may acquire a name that it holds.
    const REENTRANT: bool;

    /// Begins an acquisition of name `name` for `owner` on these terms. The worker's random numbers
    /// decide the rest.
    fn acquire(
        &self,
        worker: &mut Worker,
        name: usize,
        owner: &Owner,
        terms: &Terms,
    ) -> Acquiring<Self::Guard>;

    /// Begins an acquisition that only the holder of `guard` may make, in addition to its hold: an
    /// upgrade. `None` for an ordinary acquisition.
    fn grow(
        &self,
        worker: &mut Worker,
        guard: &Self::Guard,
        terms: &Terms,
    ) -> Option<Acquiring<Self::Guard>> {
        let _ = (worker, guard, terms);
        None
    }

    /// Tells whether a guard is to be downgraded instead of being released.
    fn shrinks(&self, worker: &mut Worker, guard: &Self::Guard) -> bool {
        let _ = (worker, guard);
        false
    }

    /// Begins a downgrade. A guard that cannot be downgraded yields nothing.
    fn shrink(&self, guard: Self::Guard) -> Acquiring<Self::Guard> {
        Box::pin(async move {
            drop(guard);
            Ok(None)
        })
    }

    /// Ends a hold by force.
    fn force<'a>(&'a self, worker: &'a mut Worker, name: usize) -> Work<'a>;
}

/// A running acquisition. It yields `None` if it would have to wait and may not.
pub type Acquiring<G> = Pin<Box<dyn Future<Output = Result<Option<G>, Error>> + Send>>;

/// A delivered guard with its holder. Dropping it drops the guard.
#[derive(Debug)]
pub struct Hold<G> {
    watch: Arc<Watch>,
    id: Id,
    guard: Option<Arc<G>>,
    name: usize,
    token: Option<u64>,
    hold: String,
    owner: Owner,
}

/// Whether an owner may hold the name already, or may have held it before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    Outer,
    Inner,
}

/// Runs one round: thinks, acquires, works under the guard, gives it up.
pub(super) async fn round<K: Holding>(kind: &K, worker: &mut Worker) {
    worker.rest().await;
    let name = worker.rng.index(worker.plan().names);
    if worker.has(Fault::Force) && worker.rng.chance(60) {
        return kind.force(worker, name).await;
    }
    let (owner, nesting) = if worker.rng.chance(250) {
        (worker.owner.clone(), Nesting::Inner)
    } else {
        (worker.client.owner(), Nesting::Outer)
    };
    if let Some(hold) = acquire(kind, worker, name, &owner, nesting, None).await {
        work(kind, worker, hold, 0).await;
        if nesting == Nesting::Outer {
            worker.leaves_nothing(name, &owner).await;
        }
    }
}

/// Acquires a name, which every worker must be able to do once all is healed.
pub(super) async fn get_on<K: Holding>(kind: &K, worker: &mut Worker, name: usize) {
    let terms = Terms::patient(worker);
    loop {
        let began = worker.life.shared.exec.now();
        let call = worker
            .watch()
            .asks(worker.life.proc, name, Waits::Patiently);
        let owner = worker.client.owner();
        let granted = kind.acquire(worker, name, &owner, &terms).await;
        let hold = granted.map(|guard| guard.map(|guard| delivered(worker, call, guard, true)));
        worker.watch().asked(call);
        match hold {
            Ok(Some(hold)) => {
                write(worker, &hold);
                let released = release(worker, hold).await;
                return worker.say(|| format!("is done with {}: {released:?}", label(name)));
            }
            Ok(None) => worker.say(|| format!("does not get {}", label(name))),
            Err(error) => {
                worker.judge(&[name], began, u64::MAX, &error);
                worker.say(|| format!("gets no answer for {}: {error}", label(name)));
            }
        }
        worker.sleep(20_000).await;
    }
}

/// Acquires in one of the many ways.
async fn acquire<K: Holding>(
    kind: &K,
    worker: &mut Worker,
    name: usize,
    owner: &Owner,
    nesting: Nesting,
    base: Option<&K::Guard>,
) -> Option<Hold<K::Guard>> {
    let terms = Terms::draw(worker);
    worker.say(|| terms.tell(name, owner));
    let grown = base.and_then(|guard| kind.grow(worker, guard, &terms));
    let future = grown.unwrap_or_else(|| kind.acquire(worker, name, owner, &terms));
    let future = worker.call(future);
    let call = worker.watch().asks(worker.life.proc, name, terms.waits());
    let limit = terms.limit(worker);
    let (guard, waited) = worker.awaits(future, &[name], label(name), limit).await;
    let hold = guard.map(|guard| delivered(worker, call, guard, terms.renewed));
    worker.watch().asked(call);
    // With late replies, the end of the caller's time is as good as a dropped call.
    let cut_off = waited == Waited::ForAWhile || worker.has(Fault::LateReply);
    if cut_off && hold.is_none() && nesting == Nesting::Outer {
        worker.leaves_nothing(name, owner).await;
    }
    hold
}

fn delivered<G: Guard>(worker: &Worker, call: Id, guard: G, renewed: bool) -> Hold<G> {
    let guard = Arc::new(guard);
    Hold {
        id: worker.delivered(call, &guard, renewed),
        watch: Arc::clone(&worker.life.shared.watch),
        name: name_of(guard.name()).unwrap_or(0),
        token: guard.fence(),
        hold: guard.hold(),
        owner: guard.owner().clone(),
        guard: Some(guard),
    }
}

/// Works under a hold.
fn work<'a, K: Holding>(
    kind: &'a K,
    worker: &'a mut Worker,
    hold: Hold<K::Guard>,
    depth: usize,
) -> Work<'a> {
    Box::pin(async move {
        let mut inner = Vec::new();
        for _ in 0..worker.rng.below(5) {
            let span = worker.draw_work();
            match worker.rng.below(10) {
                0 | 1 if depth < 2 && K::REENTRANT => {
                    let (name, owner, base) = (hold.name, &hold.owner, hold.guard.as_deref());
                    inner.extend(acquire(kind, worker, name, owner, Nesting::Inner, base).await);
                }
                2 => extend(worker, &hold).await,
                3 => run(worker, &hold, span).await,
                4 | 5 if !inner.is_empty() => {
                    let at = worker.rng.index(inner.len());
                    let ended = inner.swap_remove(at);
                    inner.extend(end(kind, worker, ended).await);
                }
                _ => worker.think(span).await,
            }
            write(worker, &hold);
            if hold.is_lost() && worker.rng.chance(800) {
                break;
            }
        }
        // The outer guard and those of re-entries end in a random order.
        inner.push(hold);
        while !inner.is_empty() {
            let at = worker.rng.index(inner.len());
            let hold = inner.swap_remove(at);
            inner.extend(end(kind, worker, hold).await);
        }
    })
}

async fn extend<G: Guard>(worker: &mut Worker, hold: &Hold<G>) {
    let span = ms(worker.rng.between(50, worker.plan().lease * 2));
    let Some(guard) = &hold.guard else { return };
    let extending = guard.extend(span);
    let extended = worker.timed("extend", worker.patience(), extending).await;
    worker.say(|| format!("extends {} by {span:?}: {extended:?}", label(hold.name)));
}

async fn run<G: Guard>(worker: &Worker, hold: &Hold<G>, span: u64) {
    let Some(guard) = &hold.guard else { return };
    let done = guard.run(worker.think(span)).await;
    let (span, name) = (span / 1000, label(hold.name));
    worker.say(|| format!("ran for {span} ms under {name}: {done:?}"));
}

/// Writes if the guard's check passes, or sends a write that arrives late, after the check.
fn write<G: Guard>(worker: &mut Worker, hold: &Hold<G>) {
    let Some(token) = hold.token else { return };
    if hold
        .guard
        .as_ref()
        .is_some_and(|guard| guard.check().is_ok())
    {
        let rightful = worker.watch().is_rightful(hold.id);
        worker
            .watch()
            .writes(&worker.label, hold.name, token, rightful);
    }
    if worker.rng.chance(100) {
        let late = worker.rng.between(0, worker.plan().lease * 3000);
        worker.writes_late(late, hold.name, token);
    }
}

/// Gives a guard up. Returns the guard of a downgrade, if there was one.
async fn end<K: Holding>(
    kind: &K,
    worker: &mut Worker,
    hold: Hold<K::Guard>,
) -> Option<Hold<K::Guard>> {
    let guard = hold.guard.as_deref();
    if guard.is_some_and(|guard| kind.shrinks(worker, guard)) {
        return shrink(kind, worker, hold).await;
    }
    match worker.draw_end() {
        End::Drop => drop(hold),
        End::DropRelease { polls } => {
            if let Some(guard) = hold.take() {
                let _ = fragile(Box::pin(guard.release()), polls).await;
            }
        }
        End::Release => {
            let released = release(worker, hold).await;
            worker.say(|| format!("has released: {released:?}"));
        }
    }
    None
}

async fn shrink<K: Holding>(
    kind: &K,
    worker: &mut Worker,
    hold: Hold<K::Guard>,
) -> Option<Hold<K::Guard>> {
    let name = hold.name;
    let call = worker.watch().asks(worker.life.proc, name, Waits::Briefly);
    let future = kind.shrink(hold.take()?);
    let result = if worker.has(Fault::Cancel) && worker.rng.chance(200) {
        worker.cancelled(future, name).await
    } else {
        Some(worker.timed("downgrade", worker.patience(), future).await)
    };
    let lesser = match result {
        Some(Ok(Some(guard))) => Some(delivered(worker, call, guard, false)),
        Some(Err(error)) => {
            worker.say(|| format!("fails to turn its hold of {}: {error}", label(name)));
            None
        }
        _ => None,
    };
    worker.watch().asked(call);
    lesser
}

/// Checks P5: releases and compares the reply with the delivered guards.
async fn release<G: Guard>(worker: &Worker, hold: Hold<G>) -> Result<Released, Error> {
    let (name, held) = (hold.name, hold.hold.clone());
    let Some(guard) = hold.take() else {
        return Ok(Released::Free);
    };
    let before = worker.watch().companions(name, &held);
    let limit = worker.patience();
    let released = worker.timed("release", limit, guard.release()).await;
    let after = worker.watch().companions(name, &held);
    let stayed = before.intersection(&after).count();
    let left = match released {
        Ok(Released::Free) => 0,
        Ok(Released::StillHeld(left)) => left as usize,
        _ => usize::MAX,
    };
    if left < stayed {
        let (who, name) = (&worker.label, label(name));
        let what = format!(
            "{who} released one guard of {name}, {left} are said to be left and {stayed} are out"
        );
        worker.watch().violate("P5", what);
    }
    released
}

impl<G: Guard> Hold<G> {
    /// Takes the guard out. It no longer belongs to the holder.
    fn take(mut self) -> Option<G> {
        self.watch.leaves(self.id);
        self.guard.take().and_then(Arc::into_inner)
    }

    fn is_lost(&self) -> bool {
        self.guard
            .as_ref()
            .is_none_or(|guard| guard.check().is_err())
    }
}

impl<G> Drop for Hold<G> {
    fn drop(&mut self) {
        self.watch.leaves(self.id);
    }
}
