//! The life of guards of every kind: acquire, hold, re-enter, extend, give up half-way, release,
//! ignore a loss.

use std::{future::Future, ops::Deref, pin::Pin, sync::Arc};

use redlatch_core::{Error, Held, HoldState, Moment, Owner, Released};

use super::{Terms, Work, Worker, steps::Waited, terms::ms};
use crate::{
    faults::Fault,
    names::{label, name_of},
    watch::{Id, Part, Sighted, Waits, Watch},
};

/// A guard of some primitive, and its acquisition.
pub trait Guard: Deref<Target = Held> + Send + Sync + Sized + 'static {
    /// Whether an owner may acquire a name that it holds.
    const REENTRANT: bool;

    /// Begins an acquisition of name `name` for `owner` on these terms. The worker's random numbers
    /// decide the rest.
    fn acquire(worker: &mut Worker, name: usize, owner: &Owner, terms: &Terms) -> Acquiring<Self>;

    /// Begins an acquisition that only the holder of this guard may make, in addition to its hold:
    /// an upgrade. `None` for an ordinary acquisition.
    fn grow(&self, worker: &mut Worker, terms: &Terms) -> Option<Acquiring<Self>> {
        let _ = (worker, terms);
        None
    }

    /// Tells whether the guard is to be downgraded instead of being released.
    fn shrinks(&self, worker: &mut Worker) -> bool {
        let _ = worker;
        false
    }

    /// Begins a downgrade. A guard that cannot be downgraded yields nothing.
    fn shrink(self) -> Acquiring<Self> {
        drop(self);
        Box::pin(async { Ok(None) })
    }

    /// Ends a hold by force.
    fn force(worker: &mut Worker, name: usize) -> Work<'_>;

    /// Releases the guard.
    fn release(self) -> impl Future<Output = Result<Released, Error>> + Send + 'static;

    /// Returns the token for a write under this guard; `None` if it must not write.
    fn fence(&self) -> Option<u64> {
        Some(self.token().as_u64())
    }

    /// Returns the identity of its hold within the name. The guards of one hold are lost together.
    fn hold(&self) -> String {
        self.token().to_string()
    }

    /// Returns the share that it takes.
    fn part(&self) -> Part {
        Part::Whole
    }
}

impl<G: Deref<Target = Held> + Send + Sync> Sighted for G {
    fn valid_until(&self) -> Moment {
        Held::valid_until(self)
    }

    fn state(&self) -> HoldState {
        Held::state(self)
    }
}

/// A running acquisition. It yields `None` if it would have to wait and may not.
pub type Acquiring<G> = Pin<Box<dyn Future<Output = Result<Option<G>, Error>> + Send>>;

/// A delivered guard with its holder, as one or more claims in the view of the observer. Dropping
/// it drops the guard.
#[derive(Debug)]
pub(super) struct Delivered<G> {
    watch: Arc<Watch>,
    claims: Vec<Id>,
    guard: Option<Arc<G>>,
}

impl<G> Delivered<G> {
    pub(super) fn new(worker: &Worker, claims: Vec<Id>, guard: Arc<G>) -> Self {
        Self {
            watch: Arc::clone(&worker.life.shared.watch),
            claims,
            guard: Some(guard),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "it is there until it is taken, which takes this by value"
    )]
    pub(super) fn guard(&self) -> &G {
        self.guard.as_ref().expect("it is there until it is taken")
    }

    /// Takes the guard out. It no longer belongs to the holder.
    pub(super) fn take(mut self) -> Option<G> {
        self.leave();
        self.guard.take().and_then(Arc::into_inner)
    }

    fn leave(&mut self) {
        for claim in self.claims.drain(..) {
            self.watch.leaves(claim);
        }
    }
}

impl<G> Drop for Delivered<G> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A delivered guard of one name.
#[derive(Debug)]
struct Hold<G> {
    given: Delivered<G>,
    id: Id,
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
pub(super) async fn round<G: Guard>(worker: &mut Worker) {
    worker.rest().await;
    let name = worker.rng.index(worker.plan().names);
    if worker.has(Fault::Force) && worker.rng.chance(60) {
        return G::force(worker, name).await;
    }
    let (owner, nesting) = if worker.rng.chance(250) {
        (worker.owner.clone(), Nesting::Inner)
    } else {
        (worker.client.owner(), Nesting::Outer)
    };
    if let Some(hold) = acquire::<G>(worker, name, &owner, nesting, None).await {
        work(worker, hold).await;
        if nesting == Nesting::Outer {
            worker.leaves_nothing(name, &owner).await;
        }
    }
}

/// Acquires a name, which every worker must be able to do once all is healed.
pub(super) async fn get_on<G: Guard>(worker: &mut Worker, name: usize) {
    let terms = Terms::patient(worker);
    loop {
        let began = worker.life.shared.exec.now();
        let call = worker.asks(name, Waits::Patiently);
        let owner = worker.client.owner();
        let granted = G::acquire(worker, name, &owner, &terms).await;
        let hold = granted.map(|guard| guard.map(|guard| delivered(worker, call, guard, true)));
        worker.watch().asked(call);
        match hold {
            Ok(Some(hold)) => {
                write(worker, &hold);
                let released = release_checked(worker, hold).await;
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
async fn acquire<G: Guard>(
    worker: &mut Worker,
    name: usize,
    owner: &Owner,
    nesting: Nesting,
    base: Option<&G>,
) -> Option<Hold<G>> {
    let terms = Terms::draw(worker);
    worker.say(|| terms.tell(name, owner));
    let grown = base.and_then(|guard| guard.grow(worker, &terms));
    let future = grown.unwrap_or_else(|| G::acquire(worker, name, owner, &terms));
    let future = worker.call(future);
    let call = worker.asks(name, terms.waits());
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
    let id = worker.delivered(call, &guard, renewed);
    Hold {
        id,
        name: name_of(guard.name()).unwrap_or(0),
        token: guard.fence(),
        hold: guard.hold(),
        owner: guard.owner().clone(),
        given: Delivered::new(worker, vec![id], guard),
    }
}

/// Works under a hold.
async fn work<G: Guard>(worker: &mut Worker, hold: Hold<G>) {
    let mut inner = Vec::new();
    for _ in 0..worker.rng.below(5) {
        let span = worker.draw_work();
        match worker.rng.below(10) {
            0 | 1 if G::REENTRANT => {
                let (name, owner, base) = (hold.name, &hold.owner, Some(hold.given.guard()));
                inner.extend(acquire(worker, name, owner, Nesting::Inner, base).await);
            }
            2 => extend(worker, &hold).await,
            3 => run(worker, &hold, span).await,
            4 | 5 if !inner.is_empty() => {
                let at = worker.rng.index(inner.len());
                let ended = inner.swap_remove(at);
                inner.extend(end(worker, ended).await);
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
        inner.extend(end(worker, hold).await);
    }
}

async fn extend<G: Guard>(worker: &mut Worker, hold: &Hold<G>) {
    let span = ms(worker.rng.between(50, worker.plan().lease * 2));
    let extending = hold.given.guard().extend(span);
    let extended = worker.timed("extend", worker.patience(), extending).await;
    worker.say(|| format!("extends {} by {span:?}: {extended:?}", label(hold.name)));
}

async fn run<G: Guard>(worker: &Worker, hold: &Hold<G>, span: u64) {
    let done = hold.given.guard().run(worker.think(span)).await;
    let (span, name) = (span / 1000, label(hold.name));
    worker.say(|| format!("ran for {span} ms under {name}: {done:?}"));
}

/// Writes if the guard's check passes, or sends a write that arrives late, after the check.
fn write<G: Guard>(worker: &mut Worker, hold: &Hold<G>) {
    let Some(token) = hold.token else { return };
    if !hold.is_lost() {
        worker.writes(hold.id, hold.name, token);
    }
    if worker.rng.chance(100) {
        let late = worker.rng.between(0, worker.plan().lease * 3000);
        worker.writes_late(late, hold.name, token);
    }
}

/// Gives a guard up. Returns the guard of a downgrade, if there was one.
async fn end<G: Guard>(worker: &mut Worker, hold: Hold<G>) -> Option<Hold<G>> {
    if hold.given.guard().shrinks(worker) {
        return shrink(worker, hold).await;
    }
    let release = |hold: Hold<G>| hold.given.take().map(|guard| Box::pin(guard.release()));
    if let Some(hold) = worker.gives_up(hold, release).await {
        let released = release_checked(worker, hold).await;
        worker.say(|| format!("has released: {released:?}"));
    }
    None
}

async fn shrink<G: Guard>(worker: &mut Worker, hold: Hold<G>) -> Option<Hold<G>> {
    let name = hold.name;
    let call = worker.asks(name, Waits::Briefly);
    let future = hold.given.take()?.shrink();
    let result = if worker.has(Fault::Cancel) && worker.rng.chance(200) {
        worker.cancelled(future, name).await
    } else {
        Some(worker.timed("downgrade", worker.patience(), future).await)
    };
    if let Some(Err(error)) = &result {
        worker.say(|| format!("fails to turn its hold of {}: {error}", label(name)));
    }
    let lesser = result.and_then(|lesser| lesser.ok().flatten());
    let lesser = lesser.map(|guard| delivered(worker, call, guard, false));
    worker.watch().asked(call);
    lesser
}

/// Checks P5: releases and compares the reply with the delivered guards.
async fn release_checked<G: Guard>(worker: &Worker, hold: Hold<G>) -> Result<Released, Error> {
    let (name, held) = (hold.name, hold.hold.clone());
    let Some(guard) = hold.given.take() else {
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
    fn is_lost(&self) -> bool {
        self.given.guard().check().is_err()
    }
}
