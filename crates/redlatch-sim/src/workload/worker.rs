//! One of the tasks of a client, and the steps that the workers of all kinds share.

use std::{fmt, future::poll_fn, ops::Deref, pin::Pin, sync::Arc, task::Poll, time::Duration};

use redlatch_core::{Client, Error, ErrorKind, LossCause, Owner, runtime::Runtime};
use tokio::{select, sync::oneshot};

use super::{Acquiring, Life, Shown, Work};
use crate::{
    faults::Fault,
    mutants::What,
    names::label,
    rng::Rng,
    runtime::micros,
    watch::{Claim, Id, Part, Sighted, Waits},
    world::World,
};

/// A task that runs rounds until all is healed, and then acquires everything once.
#[derive(Debug)]
pub struct Worker {
    pub(super) life: Arc<Life>,
    /// Its client.
    pub client: Client,
    /// Its clients, one for each server; the first is the one above.
    pub nodes: Vec<Client>,
    /// The label in the story.
    pub label: String,
    /// Its random numbers.
    pub rng: Rng,
    /// An owner that it uses repeatedly.
    pub owner: Owner,
}

impl Deref for Worker {
    type Target = Life;

    fn deref(&self) -> &Life {
        &self.life
    }
}

impl Worker {
    pub(super) fn new(life: Arc<Life>, clients: &[Client], number: usize, rng: Rng) -> Self {
        let client = &clients[0];
        Self {
            nodes: clients.to_vec(),
            label: format!("c{}.{number}", life.number),
            client: client.clone(),
            rng,
            owner: client.owner(),
            life,
        }
    }

    pub(super) async fn work(mut self) {
        let kind = self.kind;
        while !self.is_healed() && self.takes_round(self.number) {
            (kind.round)(&mut self).await;
        }
        self.rests(self.number);
        self.healed().await;
        for name in 0..self.plan.names {
            while !(kind.get_on)(&mut self, name).await {
                self.sleep(20_000).await;
            }
        }
        self.ended(self.number);
    }

    /// Tells whether this seed has a class of faults.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.has(fault)
    }

    /// Adds a line to the story.
    pub fn say(&self, text: impl FnOnce() -> String) {
        self.watch.say(|| format!("{} {}", self.label, text()));
    }

    /// Counts a fault that this worker is about to inject.
    pub fn inject(&self, fault: Fault, text: impl FnOnce() -> String) {
        self.watch
            .fault(fault, || format!("{} {}", self.label, text()));
    }

    /// Returns the time limit in µs of a call that gives up when the server does not answer.
    pub fn patience(&self) -> u64 {
        self.plan.patience * 2000 + 2_000_000
    }

    /// Returns the time limit in µs of a call that waits for so long.
    pub(super) fn limit(&self, wait: Duration) -> u64 {
        match wait.is_zero() {
            true => self.patience(),
            false => micros(wait) + 10_000,
        }
    }

    /// Checks P11: the call ends within `limit` µs of this client's running time.
    ///
    /// # Cancel safety
    ///
    /// The call is dropped with it, and is not checked.
    pub async fn timed<F: Future>(&self, what: &str, limit: u64, future: F) -> F::Output {
        let exec = &self.exec;
        let (began, paused) = (exec.now(), exec.paused(self.proc));
        let output = future.await;
        let paused = exec.paused(self.proc) - paused;
        let took = exec.now() - began;
        // A pause may begin just before the end. Events that are due meanwhile follow at once after
        // it.
        let allowed = limit.saturating_add(limit / 50 + 5_000 + paused);
        if took > allowed {
            let (who, took, allowed) = (&self.label, took / 1000, allowed / 1000);
            let what = format!("{who}: {what} took {took} ms, {allowed} ms were allowed");
            self.watch.violate("P11", what);
        }
        output
    }

    /// Checks P11 of a call that gives up when the server does not answer.
    ///
    /// # Cancel safety
    ///
    /// The call is dropped with it, and is not checked.
    pub(super) async fn briefly<F: Future>(&self, what: &str, future: F) -> F::Output {
        self.timed(what, self.patience(), future).await
    }

    /// Polls a call a few times or for a while, then drops it.
    ///
    /// # Cancel safety
    ///
    /// The call is dropped with it, and is not recorded as a cancelled one.
    pub async fn cancelled<F: Future + Unpin>(
        &mut self,
        future: F,
        name: usize,
    ) -> Option<F::Output> {
        let result = if self.rng.chance(500) {
            let polls = self.rng.between(1, 12);
            fragile(future, polls).await
        } else {
            let span = self.rng.between(0, 300_000);
            let life = Arc::clone(&self.life);
            select! {
                biased;
                result = future => Some(result),
                () = life.sleep(span) => None,
            }
        };
        if result.is_none() {
            self.inject(Fault::Cancel, || {
                format!("drops its call for {}", label(name))
            });
        }
        result
    }

    /// Returns the acquisition as its caller sees it: the library's, or one that a planted fault
    /// has changed.
    pub(super) fn call<G: Send + 'static>(&self, future: Acquiring<G>) -> Acquiring<G> {
        if !matches!(self.planted, Some(What::Detached)) {
            return future;
        }
        let (done, result) = oneshot::channel();
        let going_on = async move {
            if let Err(undelivered) = done.send(future.await) {
                std::mem::forget(undelivered);
            }
        };
        self.runtime.spawn("detached", Box::pin(going_on));
        Box::pin(async move { result.await.unwrap_or(Ok(None)) })
    }

    /// Checks P6 and P10: once undo and release are answered, nothing of dropped calls and guards
    /// is left by an owner that `is_over`. It checks in `often` of a thousand cases only, because
    /// the check has to wait.
    ///
    /// # Cancel safety
    ///
    /// It only reads. State that it has not read is not checked.
    pub async fn leaves_nothing(
        &mut self,
        name: usize,
        often: u64,
        is_over: impl Fn(&str) -> bool,
    ) {
        if !self.rng.chance(often) {
            return;
        }
        select! {
            biased;
            () = self.client.settled() => {}
            () = self.healed() => return,
        }
        let holders = self.holders(name).into_iter();
        // A takeover may have lost the release.
        let mut holders = holders.filter(|_| !self.has(Fault::TwoMasters));
        if let Some(owner) = holders.find(|owner| is_over(owner)) {
            let name = label(name);
            let what = format!(
                "{owner} holds {name} though all of its calls and guards are gone and answered"
            );
            self.watch.violate("P10", what);
        }
    }

    /// Thinks for up to one of these times in µs, which are equally likely.
    pub(super) async fn think_up_to(&mut self, longest: &[u64]) {
        let longest = longest[self.rng.index(longest.len())];
        let span = self.rng.between(0, longest);
        self.think(span).await;
    }

    /// Draws the µs of one piece of work under a guard.
    pub(super) fn draw_work(&mut self) -> u64 {
        let lease = self.plan.lease * 1000;
        // A takeover shows best during a long hold.
        let long = if self.has(Fault::TwoMasters) { 4 } else { 1 };
        match self.rng.below(20) {
            long_work if long_work < long => self.rng.between(0, lease * 3),
            1..=3 => self.rng.between(0, lease),
            _ => self.rng.between(0, 20_000),
        }
    }

    /// Makes the call `what` for a name, as [`calls`](Self::calls) does, and adds its result to the
    /// story.
    pub(super) async fn does<T: fmt::Debug>(
        &mut self,
        name: usize,
        what: &str,
        limit: u64,
        call: impl Future<Output = Result<T, Error>> + Unpin,
    ) -> Option<Result<T, Error>> {
        let result = self.calls(&[name], what, limit, call).await;
        self.say(|| format!("has called {what} of {}: {result:?}", label(name)));
        result
    }

    /// Waits for the call `what` for `names`, which may take `limit` µs, or drops it half-way while
    /// there are faults. Returns no result if it was dropped.
    pub(super) async fn calls<T>(
        &mut self,
        names: &[usize],
        what: &str,
        limit: u64,
        call: impl Future<Output = Result<T, Error>> + Unpin,
    ) -> Option<Result<T, Error>> {
        let began = self.exec.now();
        let drops = self.has(Fault::Cancel) && !self.is_healed();
        let result = if drops && self.rng.chance(200) {
            self.cancelled(call, names[0]).await
        } else {
            Some(self.timed(what, limit, call).await)
        };
        if let Some(Err(error)) = &result {
            self.judge(names, began, limit, error);
        }
        result
    }

    /// Checks the error of a call for `names` that began at `began` and had `limit` µs. No fault
    /// lasts, so no error may say that a server is unfit. A server that answers is not silent.
    pub(super) fn judge(&self, names: &[usize], began: u64, limit: u64, error: &Error) {
        let who = &self.label;
        if is_final(error) {
            let what = format!("{who} is told that it can never succeed: {error}");
            self.watch.violate("passes", what);
        }
        // The patience counts from the last answer. A call that waits for longer may have had none
        // for that time because it asked nothing.
        let shared = &self.life.shared;
        let soon = shared.exec.now() - began < shared.plan.patience * 1_000;
        let silent = is_silence(error) && limit >= ENOUGH && soon;
        if silent && shared.answers(names, began) {
            let what = format!("{who} is told of a silent server, and it answers: {error}");
            self.watch.violate("answered", what);
        }
    }

    /// Gives a guard up in one of the many ways: drops it, or drops its release half-way. Returns
    /// it if its release is to be awaited.
    pub(super) async fn gives_up<H, F: Future + Unpin>(
        &mut self,
        held: H,
        release: impl FnOnce(H) -> Option<F>,
    ) -> Option<H> {
        match self.rng.below(10) {
            0..=3 => drop(held),
            4 if self.has(Fault::Cancel) => {
                let polls = self.rng.between(1, 4);
                if let Some(release) = release(held) {
                    let _ = fragile(release, polls).await;
                }
            }
            _ => return Some(held),
        }
        None
    }

    /// Ends a hold by force, at once or as `after_lease` says.
    pub(super) fn forces<F>(&mut self, name: usize, force: F, after_lease: fn(F) -> F) -> Work<'_>
    where
        F: IntoFuture<Output: fmt::Debug, IntoFuture: Send> + Send + 'static,
    {
        Box::pin(async move {
            let gentle = self.rng.chance(500);
            let force = if gentle { after_lease(force) } else { force };
            self.inject(Fault::Force, || {
                format!("releases {} by force", label(name))
            });
            let forced = self.briefly("force_release", force.into_future()).await;
            self.say(|| format!("has forced {}: {forced:?}", label(name)));
        })
    }

    /// Shows the start of an acquisition of these names to the observer.
    pub(super) fn asks(&self, names: &[usize], waits: Waits) -> Vec<(usize, Id)> {
        let ask = |&name: &usize| (name, self.watch.asks(self.proc, name, waits));
        names.iter().map(ask).collect()
    }

    /// Shows the end of an acquisition to the observer, whatever its result.
    pub(super) fn asked(&self, calls: &[(usize, Id)]) {
        calls.iter().for_each(|&(_, call)| self.watch.asked(call));
    }

    /// Begins the description of a guard for the observer. The caller adds its identity.
    pub(super) fn claim(&self, name: usize, sight: &Arc<dyn Sighted>, renewed: bool) -> Claim {
        Claim {
            proc: self.proc,
            who: self.label.clone(),
            name,
            hold: "".into(),
            owner: "".into(),
            token: None,
            part: Part::Whole,
            clock: self.clock.clone(),
            sight: Arc::downgrade(sight),
            delivered: self.exec.now(),
            renewed,
            told: false,
        }
    }

    /// Shows a guard to the observer, which may inspect `sight`, and reports when `lost` resolves.
    /// `calls` are the acquisitions of its names.
    pub(super) fn shows(
        &self,
        calls: &[(usize, Id)],
        claim: Claim,
        sight: Arc<dyn Sighted>,
        lost: impl Future<Output = LossCause> + Send + 'static,
    ) -> Shown {
        let shared = &self.life.shared;
        let (name, token, hold) = (claim.name, claim.token, Arc::clone(&claim.hold));
        let call = calls.iter().find(|(asked, _)| *asked == name);
        let call = call.map_or(0, |&(_, call)| call);
        let id = shared.watch.delivered(call, claim);
        let watch = Arc::clone(&shared.watch);
        let notice = async move { watch.told(id, lost.await) };
        self.runtime.spawn("notice", Box::pin(notice));
        Shown {
            watch: Arc::clone(&shared.watch),
            id,
            name,
            hold,
            token,
            _sight: sight,
        }
    }

    /// Sends a write that arrives after `micros`, even if its sender is gone.
    pub fn writes_late(&self, micros: u64, name: usize, token: u64) {
        let (watch, who) = (Arc::clone(&self.watch), self.label.clone());
        let write = move |_: &mut World| watch.writes(&who, name, token, None);
        self.exec.after(micros, write);
    }
}

/// Polls `future` at most `polls` times, which are not zero, and then drops it.
fn fragile<F: Future + Unpin>(
    mut future: F,
    mut polls: u64,
) -> impl Future<Output = Option<F::Output>> {
    poll_fn(move |context| {
        polls -= 1;
        match Pin::new(&mut future).poll(context) {
            Poll::Pending if polls == 0 => Poll::Ready(None),
            polled => polled.map(Some),
        }
    })
}

/// Tells whether an error says that the server will never do.
pub(super) fn is_final(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Protocol | ErrorKind::UnsupportedServer
    )
}

/// Tells whether an error says that a server does not answer.
pub(super) fn is_silence(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown
    )
}

/// The time in µs within which a server that answers has answered, on the slowest networks.
const ENOUGH: u64 = 510_000;
