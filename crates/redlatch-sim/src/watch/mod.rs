//! The observer: it sees all events, does not take part, and reports which promise was broken when.
//!
//! The checkers in `promises` and `notice` cover the promises that all kinds share. A kind adds its
//! own with [`Workload::checkers`](crate::workload::Workload::checkers).

mod checker;
mod history;
mod notice;
mod promises;
mod record;
mod view;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use redlatch_core::{
    LossCause,
    runtime::{Command, Reply},
};

pub use self::{
    checker::{Checker, Event, OfName, each},
    history::History,
    record::{Broken, Record, Tally, Violation},
    view::{Call, Claim, Conditions, GRAIN, Id, Part, Sight, Sighted, View, Waits},
};
use crate::{
    exec::{Exec, ProcId, lock},
    faults::{Fault, Faults},
    names::label,
    plan::Plan,
    scripts::Ran,
    workload::{self, Kind},
    world::{Options, Report},
};

/// The observer of one run.
#[derive(Debug)]
pub struct Watch {
    exec: Arc<Exec>,
    kind: Kind,
    plan: Plan,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    view: View,
    record: Record,
    checkers: Vec<Box<dyn Checker>>,
    /// P3: the protected resources. They check tokens: per name, that of the last accepted write.
    fences: Vec<u64>,
    next: Id,
    checked: u64,
}

impl Watch {
    /// Starts to observe a seed.
    pub fn new(
        exec: Arc<Exec>,
        seed: u64,
        kind: Kind,
        plan: &Plan,
        faults: &Faults,
        options: &Options,
    ) -> Arc<Self> {
        let names = plan.names;
        let scenario = options.scenario;
        let conditions = Conditions::of(faults, scenario);
        let mut checkers = promises::checkers(names);
        checkers.extend((kind.checkers)(names));
        let history = History::new(options.history.as_ref(), seed, kind.name, &conditions);
        let record = Record {
            told: options.told,
            history,
            expects_trouble: conditions.expects_trouble,
            scenario,
            ..Record::default()
        };
        let state = State {
            view: View::new(Arc::clone(&exec), names, conditions),
            record,
            checkers,
            fences: vec![0; names],
            next: 0,
            checked: 0,
        };
        Arc::new(Self {
            exec,
            kind,
            plan: plan.clone(),
            state: Mutex::new(state),
        })
    }

    /// Adds a line to the story, if it is recorded.
    pub fn say(&self, text: impl FnOnce() -> String) {
        self.state().record.say(text);
    }

    /// Gives a client's identity a readable name.
    pub fn call_by(&self, id: &str, name: &str) {
        self.state().record.call_by(id, name);
    }

    /// Counts a fault.
    pub fn fault(&self, fault: Fault, text: impl FnOnce() -> String) {
        let record = &mut self.state().record;
        *record.tally.faults.entry(fault).or_default() += 1;
        record.say(|| format!("*** {}: {}", fault.name(), text()));
    }

    /// Records a broken promise.
    pub fn violate(&self, promise: &'static str, what: String) {
        self.state().record.violate(promise, what);
    }

    /// Records the start of an acquisition.
    pub fn asks(&self, proc: ProcId, name: usize, waits: Waits) -> Id {
        let mut state = self.state();
        let id = state.number();
        let call = Call {
            proc,
            name,
            since: state.view.now,
            waits,
            acked: state.view.acked[name],
        };
        state.view.calls.insert(id, call);
        id
    }

    /// Records the end of an acquisition, whatever its result.
    pub fn asked(&self, call: Id) {
        self.state().view.calls.remove(&call);
    }

    /// Records that an acquisition delivered a guard.
    pub fn delivered(&self, call: Id, claim: Claim) -> Id {
        let mut state = self.state();
        let id = state.number();
        let (name, token) = (claim.name, claim.token);
        state.record.tally.grants += 1;
        state.record.say(|| {
            let (who, hold) = (&claim.who, &claim.hold);
            format!("{who} has {} as {hold}", label(name))
        });
        state.view.claims.insert(id, claim);
        state.note(|view| {
            view.claims.get(&id).map(|claim| Event::Delivered {
                claim,
                call: view.calls.get(&call),
            })
        });
        let acked = &mut state.view.acked[name];
        *acked = token.map_or(*acked, |token| token.max(*acked));
        id
    }

    /// Records that the holder gives a guard up.
    pub fn leaves(&self, id: Id) {
        let mut state = self.state();
        let gone = state.view.claims.remove(&id);
        if let Some(claim) = &gone {
            state.note(|_| Some(Event::Left { name: claim.name }));
        }
    }

    /// Records the death of a process. Its guards no longer count as believed, and its calls end.
    pub fn died(&self, proc: ProcId) {
        let claims: Vec<_> = {
            let mut state = self.state();
            state.view.calls.retain(|_, call| call.proc != proc);
            state.view.subscribed.remove(&proc);
            let claims = state.view.claims.iter().filter(|(_, it)| it.proc == proc);
            claims.map(|(&id, _)| id).collect()
        };
        claims.into_iter().for_each(|id| self.leaves(id));
    }

    /// Records that `lost()` of a guard resolved.
    pub fn told(&self, id: Id, cause: LossCause) {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(claim) = state.view.claims.get_mut(&id) else {
            return;
        };
        claim.told = true;
        state.record.tally.losses += 1;
        state.record.say(|| {
            let (who, name) = (&claim.who, label(claim.name));
            format!("{who} is told that it lost {name}: {cause}")
        });
        state.note(|view| {
            let claim = view.claims.get(&id)?;
            Some(Event::Told { claim, cause })
        });
    }

    /// Records a holder's write to the resource that the name protects. `claim` is its guard, if
    /// that has just passed its check.
    pub fn writes(&self, who: &str, name: usize, token: u64, claim: Option<Id>) {
        let state = &mut *self.state();
        let (fence, view) = (&mut state.fences[name], &state.view);
        let taken = token >= *fence;
        state.record.say(|| {
            let verdict = if taken { "taken" } else { "refused" };
            let name = label(name);
            format!("{who}'s write to {name} with token {token} is {verdict}")
        });
        if taken {
            *fence = token;
            return;
        }
        state.record.tally.stopped += 1;
        // No other client may have had the name since the guard was granted, if it was not ended by
        // force and the server forgets nothing.
        let claim = claim.and_then(|id| view.claims.get(&id));
        let kept = claim.is_some_and(|claim| !view.was_ended_by_force(claim));
        if kept && !view.conditions.expects_trouble {
            let name = label(name);
            let what = format!(
                "{who} holds {name} rightfully with token {token}, and its write is refused: {fence} has been there"
            );
            state.record.violate("P3", what);
        }
    }

    /// Returns the guards of a hold that are delivered and believed.
    pub fn companions(&self, name: usize, hold: &str) -> BTreeSet<Id> {
        let view = &self.state().view;
        let its = |claim: &Claim| *claim.hold == *hold && claim.believes(view.now);
        let claims = view.of_name(name).filter(|(_, claim)| its(claim));
        claims.map(|(id, _)| id).collect()
    }

    /// Counts an acquisition that gives no guard.
    pub fn granted(&self) {
        self.state().record.tally.grants += 1;
    }

    /// Writes for the judge of histories, if there is a history.
    pub fn tells(&self, tell: impl FnOnce(&mut History)) {
        self.state().record.history.as_mut().map(tell);
    }

    /// Records a copy of the first server's data; returns its number.
    pub fn copied(&self) -> u64 {
        let mut state = self.state();
        let copy = state.number();
        state.note(|_| Some(Event::Copied { copy }));
        copy
    }

    /// Passes an event to the checkers.
    pub fn notes(&self, event: Event<'_>) {
        self.state().note(|_| Some(event));
    }

    /// Describes the waiting calls: the caller, the name, and the start of the wait.
    pub fn waiting(&self) -> String {
        let view = &self.state().view;
        let calls = view.calls.values().map(|call| {
            let (proc, name, since) = (call.proc, label(call.name), view.now - call.since);
            let since = since / 1_000;
            format!("process {proc} for {name} since {since} ms")
        });
        calls.collect::<Vec<_>>().join(", ")
    }

    /// Records that the server has run a command, at `clock` of its own clock in µs.
    pub fn served(
        &self,
        (proc, sent): (ProcId, u64),
        (command, reply): (&Command, &Reply),
        clock: u64,
    ) {
        let mut state = self.state();
        let runs = Ran::all(command, reply);
        if runs.is_empty() {
            state.record.say(|| {
                // The other arguments may differ between machines.
                let words = command.args().take(2).map(String::from_utf8_lossy);
                let words = words.collect::<Vec<_>>().join(" ");
                let error = reply.as_ref().err().map(|error| format!(": {error}"));
                format!("the server runs {words}{}", error.unwrap_or_default())
            });
        }
        if runs.len() > 1 {
            let (tally, entries) = (&mut state.record.tally, runs.len() as u64);
            tally.lists += 1;
            tally.entries += entries;
            tally.largest = tally.largest.max(entries);
            let say = || format!("the server runs a list of {} entries", runs.len());
            state.record.say(say);
        }
        for ran in &runs {
            state.record.say(|| ran.to_string());
            let seen = &workload::seen(ran);
            state.view.saw(seen);
            let event = Event::Ran {
                proc,
                ran,
                seen,
                sent,
                clock,
            };
            state.note(|_| Some(event));
        }
    }

    /// Checks P6: every key has an expiry at any time, whatever dies. `ttl` is its remaining time
    /// in ms.
    pub fn lives(&self, key: &str, ttl: Option<u64>) {
        match ((self.kind.lives)(key, &self.plan), ttl) {
            (Some(_), None) => self.violate("P6", format!("{key} has no end")),
            (Some(most), Some(ttl)) if ttl > most => {
                self.violate("P6", format!("{key} may live on for {ttl} ms"));
            }
            _ => {}
        }
    }

    /// Records whether a process receives messages from now on.
    pub fn hears(&self, proc: ProcId, messages: bool) {
        let view = &mut self.state().view;
        if messages || view.exec.is_alive(proc) {
            view.subscribed.insert(proc, messages);
        }
        view.resubscribed = view.now;
    }

    /// Records that all faults have ended.
    pub fn heals(&self) {
        let mut state = self.state();
        state.view.healed = Some(state.view.now);
        let text = || "=== all faults end; everybody has to get on now".to_owned();
        state.record.say(text);
    }

    /// Runs the checks after a step.
    pub fn look(&self) {
        let mut state = self.state();
        state.note(|_| Some(Event::Stepped));
        if state.view.now >= state.checked + LOOK_EVERY {
            state.checked = state.view.now;
            state.note(|_| Some(Event::Looked));
        }
    }

    /// Returns the results of a run of `steps` steps.
    pub fn report(&self, seed: u64, steps: u64) -> Report {
        let mut state = self.state();
        let (now, healed) = (state.view.now, state.view.healed);
        let record = &mut state.record;
        Report {
            seed,
            kind: self.kind.name,
            violations: record.violations.clone(),
            tally: Tally {
                seeds: 1,
                broken: u64::from(!record.violations.is_empty()),
                lasted: now,
                converged: healed.map_or(0, |healed| now - healed),
                ..record.tally.clone()
            },
            steps,
            story: std::mem::take(&mut record.story),
        }
    }

    /// Drops the references that the observer holds.
    pub fn clear(&self) {
        self.state().view.claims.clear();
    }

    /// Records that the run is over and nothing of it is left.
    pub fn over(&self) {
        let mut state = self.state();
        state.note(|_| Some(Event::Over));
        if let Some(history) = &mut state.record.history {
            history.over();
        }
    }

    /// Returns the state, which knows the time.
    fn state(&self) -> MutexGuard<'_, State> {
        let (now, mut state) = (self.exec.now(), lock(&self.state));
        (state.view.now, state.record.now) = (now, now);
        state
    }
}

impl State {
    fn number(&mut self) -> Id {
        self.next += 1;
        self.next
    }

    fn note<'a>(&'a mut self, event: impl FnOnce(&'a View) -> Option<Event<'a>>) {
        let (view, record) = (&self.view, &mut self.record);
        let Some(event) = event(view) else { return };
        for checker in &mut self.checkers {
            checker.note(&event, view, record);
        }
    }
}

/// The interval in µs of the checks that need not run after each step.
const LOOK_EVERY: u64 = 1_000;
