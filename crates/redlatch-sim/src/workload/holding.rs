//! The life of guards of every kind: acquire, hold, re-enter, extend, give up half-way, release,
//! ignore a loss.

use std::{future::Future, ops::Deref, pin::Pin, slice, sync::Arc, time::Duration};

use redlatch_core::{Bundle, Error, Extending, Held, HoldState, Lasting, Moment, Owner, Released};

use super::{Terms, Work, Worker, terms::ms};
use crate::{
    faults::Fault,
    names::{label, name_of, told},
    watch::{Claim, Id, Part, Sighted, Waits, Watch},
};

/// What a guard stands for: one hold, or several.
pub(crate) trait Body: Lasting {
    /// Returns the holds.
    fn holds(&self) -> &[Held];

    /// Extends the lease.
    fn extend(&self, span: Duration) -> Extending<'_>;

    /// Runs work until it is done, or until the guard is lost.
    fn run(
        &self,
        work: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

macro_rules! bodies {
    ($($body:ident => $holds:expr;)*) => {$(
        impl Body for $body {
            fn holds(&self) -> &[Held] {
                $holds(self)
            }

            fn extend(&self, span: Duration) -> Extending<'_> {
                Box::pin(Self::extend(self, span))
            }

            async fn run(&self, work: impl Future<Output = ()> + Send) -> Result<(), Error> {
                Self::run(self, work).await
            }
        }
    )*};
}

bodies! {
    Held => slice::from_ref;
    Bundle => Self::holds;
}

/// A guard of some primitive, and its acquisition.
pub(crate) trait Guard: Deref<Target: Body> + Send + Sync + Sized + 'static {
    /// Whether an owner may acquire a name that it holds.
    const REENTRANT: bool;

    /// Draws the names of an acquisition. A worker that wants one name must get all of them.
    fn names(worker: &mut Worker, wanted: Option<usize>) -> Vec<usize> {
        let draw = || worker.rng.index(worker.plan.names);
        vec![wanted.unwrap_or_else(draw)]
    }

    /// Begins an acquisition of these names on these terms. The worker's random numbers decide the
    /// rest.
    fn acquire(worker: &mut Worker, names: &[usize], terms: &Terms) -> Acquiring<Self>;

    /// Returns how the observer is to see an acquisition on these terms.
    fn waits(terms: &Terms) -> Waits {
        terms.waits()
    }

    /// Draws the names and terms of an acquisition by `owner`, which holds `name`.
    fn inner(worker: &mut Worker, name: usize, owner: &Owner) -> (Vec<usize>, Terms) {
        (vec![name], Terms::draw(worker, owner))
    }

    /// Begins an acquisition that only the holder of this guard may make, in addition to its hold:
    /// an upgrade. `None` for an ordinary acquisition.
    fn grow(&self, _worker: &mut Worker, _terms: &Terms) -> Option<Acquiring<Self>> {
        None
    }

    /// Tells whether the guard is to be downgraded instead of being released.
    fn shrinks(&self, _worker: &mut Worker) -> bool {
        false
    }

    /// Begins a downgrade. A guard that cannot be downgraded yields nothing.
    fn shrink(self) -> Acquiring<Self> {
        drop(self);
        Box::pin(async { Ok(None) })
    }

    /// Ends a hold by force. By default the kind has no release by force.
    fn force(worker: &mut Worker, _name: usize) -> Work<'_> {
        Box::pin(async { worker.think(1_000).await })
    }

    /// Extends the guard.
    fn extend(&self, span: Duration) -> Extending<'_> {
        (**self).extend(span)
    }

    /// Releases the guard. Returns the name and the outcome of each hold.
    fn release(self) -> impl Future<Output = Result<Releases, Error>> + Send + 'static;

    /// Returns the token for a write under a hold; `None` if it must not write.
    fn fence(&self, held: &Held) -> Option<u64> {
        Some(held.token().as_u64())
    }

    /// Returns the identity of a hold within the name. The guards of one hold are lost together.
    fn hold(&self, held: &Held) -> String {
        held.token().to_string()
    }

    /// Returns the share that it takes.
    fn part(&self) -> Part {
        Part::Whole
    }

    /// Checks what only guards of this kind promise. `is_new` as the guard is returned.
    fn judge(&self, _worker: &Worker, _is_new: bool) {}

    /// Shows the guard to the observer, as one claim for each of its holds. `calls` are the
    /// acquisitions of its names.
    fn shows(
        self: &Arc<Self>,
        worker: &Worker,
        calls: &[(usize, Id)],
        renewed: bool,
    ) -> Vec<Shown> {
        let places = self.holds().iter().enumerate();
        let shown = places.map(|(at, held)| {
            let guard = Arc::clone(self);
            let sight: Arc<dyn Sighted> = Arc::new(Member { guard, at });
            let claim = Claim {
                hold: self.hold(held).into(),
                owner: held.owner().to_string().into(),
                token: self.fence(held),
                part: self.part(),
                ..worker.claim(name_of(held.name()).unwrap_or(0), &sight, renewed)
            };
            worker.shows(calls, claim, sight, held.lost())
        });
        shown.collect()
    }
}

/// The outcomes of a release, each with the name of its hold.
pub(crate) type Releases = Vec<(String, Released)>;

/// A claim in the view of the observer, which it leaves when this is dropped.
pub(crate) struct Shown {
    pub(super) watch: Arc<Watch>,
    pub(super) id: Id,
    pub(super) name: usize,
    pub(super) hold: Arc<str>,
    pub(super) token: Option<u64>,
    /// The observer sees the hold as long as this exists.
    pub(super) _sight: Arc<dyn Sighted>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.watch.leaves(self.id);
    }
}

/// One hold of a guard.
struct Member<G> {
    guard: Arc<G>,
    at: usize,
}

impl<G: Guard> Sighted for Member<G> {
    fn valid_until(&self) -> Moment {
        self.guard.holds()[self.at].valid_until()
    }

    fn state(&self) -> HoldState {
        self.guard.holds()[self.at].state()
    }
}

/// A running acquisition. It yields `None` if it would have to wait and may not.
pub(crate) type Acquiring<G> = Pin<Box<dyn Future<Output = Result<Option<G>, Error>> + Send>>;

/// A delivered guard with its holder, as one or more claims in the view of the observer. Dropping
/// it drops the guard behind its claims.
struct Hold<G> {
    shown: Vec<Shown>,
    guard: Arc<G>,
}

impl<G: Guard> Hold<G> {
    fn new(worker: &Worker, calls: &[(usize, Id)], guard: G, renewed: bool) -> Self {
        let guard = Arc::new(guard);
        guard.judge(worker, true);
        let shown = guard.shows(worker, calls, renewed);
        Self { shown, guard }
    }

    fn names(&self) -> String {
        told(self.shown.iter().map(|shown| shown.name))
    }

    /// Takes the guard out. It no longer belongs to the holder.
    fn take(self) -> Option<G> {
        drop(self.shown);
        Arc::into_inner(self.guard)
    }
}

/// Runs one round: thinks, acquires, works under the guard, gives it up.
pub(super) async fn round<G: Guard>(worker: &mut Worker) {
    let long = worker.plan.lease * 1_500;
    let longest = [long, 0, 0, 0, 0, SHORT, SHORT, SHORT, SHORT, SHORT];
    worker.think_up_to(&longest).await;
    let names = G::names(worker, None);
    if worker.has(Fault::Force) && worker.rng.chance(60) {
        return G::force(worker, names[0]).await;
    }
    // An owner that is used again may hold the names already, or may have held them before.
    let again = worker.rng.chance(250);
    let owner = match again {
        true => worker.owner.clone(),
        false => worker.client.owner(),
    };
    let terms = Terms::draw(worker, &owner);
    if let Some(hold) = acquire::<G>(worker, &names, &terms, None).await {
        work(worker, hold, &owner).await;
    }
    if !again {
        let owner = owner.to_string();
        for name in names {
            worker.leaves_nothing(name, 300, |it| it == owner).await;
        }
    }
}

/// Acquires a name, which every worker must be able to do once all is healed.
pub(super) async fn get_on<G: Guard>(worker: &mut Worker, name: usize) -> bool {
    let terms = Terms::patient(worker);
    let names = G::names(worker, Some(name));
    let Some(hold) = acquire::<G>(worker, &names, &terms, None).await else {
        return false;
    };
    write(worker, &hold);
    release_checked(worker, hold).await;
    true
}

/// Acquires in one of the many ways.
async fn acquire<G: Guard>(
    worker: &mut Worker,
    names: &[usize],
    terms: &Terms,
    base: Option<&G>,
) -> Option<Hold<G>> {
    let what = told(names.iter().copied());
    worker.say(|| terms.tell(&what));
    let grown = base.and_then(|guard| guard.grow(worker, terms));
    let future = grown.unwrap_or_else(|| G::acquire(worker, names, terms));
    let future = worker.call(future);
    let calls = worker.asks(names, G::waits(terms));
    let limit = terms.limit(worker);
    let result = worker.calls(names, "acquire", limit, future).await;
    match &result {
        Some(Ok(None)) => worker.say(|| format!("does not get {what}")),
        Some(Err(error)) => worker.say(|| format!("fails to get {what}: {error}")),
        _ => {}
    }
    let granted = result.and_then(|result| result.ok().flatten());
    let hold = granted.map(|guard| Hold::new(worker, &calls, guard, terms.renewed));
    worker.asked(&calls);
    hold
}

/// Works under a hold.
async fn work<G: Guard>(worker: &mut Worker, hold: Hold<G>, owner: &Owner) {
    let mut inner = Vec::new();
    for _ in 0..worker.rng.below(5) {
        let span = worker.draw_work();
        match worker.rng.below(10) {
            0 | 1 if G::REENTRANT => {
                let (names, terms) = G::inner(worker, hold.shown[0].name, owner);
                let base = Some(&*hold.guard);
                inner.extend(acquire(worker, &names, &terms, base).await);
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
        hold.guard.judge(worker, false);
        if hold.guard.check().is_err() && worker.rng.chance(800) {
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
    let span = ms(worker.rng.between(50, worker.plan.lease * 2));
    let extending = Guard::extend(&*hold.guard, span);
    let extended = worker.briefly("extend", extending).await;
    worker.say(|| format!("extends {} by {span:?}: {extended:?}", hold.names()));
}

async fn run<G: Guard>(worker: &Worker, hold: &Hold<G>, span: u64) {
    let done = hold.guard.run(worker.think(span)).await;
    let (span, names) = (span / 1000, hold.names());
    worker.say(|| format!("ran for {span} ms under {names}: {done:?}"));
}

/// Writes to each name if the guard's check passes, or sends writes that arrive late, after the
/// check.
fn write<G: Guard>(worker: &mut Worker, hold: &Hold<G>) {
    let (fit, late) = (hold.guard.check().is_ok(), worker.rng.chance(100));
    for shown in &hold.shown {
        let Some(token) = shown.token else { continue };
        if fit {
            let claim = Some(shown.id);
            worker.watch.writes(&worker.label, shown.name, token, claim);
        }
        if late {
            let late = worker.rng.between(0, worker.plan.lease * 3000);
            worker.writes_late(late, shown.name, token);
        }
    }
}

/// Gives a guard up. Returns the guard of a downgrade, if there was one.
async fn end<G: Guard>(worker: &mut Worker, hold: Hold<G>) -> Option<Hold<G>> {
    if hold.guard.shrinks(worker) {
        return shrink(worker, hold).await;
    }
    let release = |hold: Hold<G>| hold.take().map(|guard| Box::pin(guard.release()));
    if let Some(hold) = worker.gives_up(hold, release).await {
        release_checked(worker, hold).await;
    }
    None
}

async fn shrink<G: Guard>(worker: &mut Worker, hold: Hold<G>) -> Option<Hold<G>> {
    let name = hold.shown[0].name;
    let calls = worker.asks(&[name], Waits::Briefly);
    let future = hold.take()?.shrink();
    let limit = worker.patience();
    let result = worker.calls(&[name], "downgrade", limit, future).await;
    if let Some(Err(error)) = &result {
        worker.say(|| format!("fails to turn its hold of {}: {error}", label(name)));
    }
    let lesser = result.and_then(|lesser| lesser.ok().flatten());
    let lesser = lesser.map(|guard| Hold::new(worker, &calls, guard, false));
    worker.asked(&calls);
    lesser
}

/// Checks P5: releases, and compares the reply for each hold with the delivered guards.
async fn release_checked<G: Guard>(worker: &Worker, hold: Hold<G>) {
    let holds = hold.shown.iter();
    let holds: Vec<_> = holds.map(|it| (it.name, Arc::clone(&it.hold))).collect();
    let Some(guard) = hold.take() else { return };
    let companions = || {
        let held = holds.iter();
        let held = held.map(|(name, hold)| worker.watch.companions(*name, hold));
        held.collect::<Vec<_>>()
    };
    let before = companions();
    let released = worker.briefly("release", guard.release()).await;
    let after = companions();
    worker.say(|| format!("has released: {released:?}"));
    let Ok(released) = released else { return };
    if released.len() != holds.len() {
        let what = format!("{} holds, {} results", holds.len(), released.len());
        worker.watch.violate("P5", what);
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
                "{who} released one guard of {of} and is told of {name}: {left} left, {stayed} are out"
            );
            worker.watch.violate("P5", what);
        }
    }
}

/// A short time between two rounds, in µs.
const SHORT: u64 = 50_000;
