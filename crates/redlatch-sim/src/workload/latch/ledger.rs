//! The additional promises of the latch: a count-down counts exactly once, a latch opens once per
//! generation, no waiter passes early, and every waiter passes.

use std::collections::BTreeMap;

use crate::{
    exec::ProcId,
    names::label,
    record::{Outcome, Round, Step},
    scripts::Ran,
    watch::{Broken, Checker, Event, History, Record, View},
    workload::changes::{
        differs,
        model::{Generation, Latch},
    },
};

/// An action that a worker reports. Times are true time in µs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    /// It begins one count-down.
    Counts,
    /// Its count-down returned as counted.
    Counted,
    /// Its call, which may have counted down by so much, is over.
    IsOver { n: u32, step: Step },
    /// Its wait ended because the latch is open, and is `prompt` if messages end it.
    Passes { since: u64, prompt: bool },
    /// Its wait ended because its time was up.
    IsShutOut { since: u64 },
    /// It found no latch to wait for.
    FindsNone { since: u64 },
    /// The latch that it waited for was deleted.
    IsDeleted { since: u64 },
}

/// The count-downs of one process for one name.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    begun: u64,
    ran: u64,
    told: u64,
}

/// Compares the actions of the server, and the results of workers, with a model of the latch.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    latches: Vec<Latch>,
    /// For the judge of histories: per name, when it was set or deleted, and the calls.
    rounds: Vec<Vec<Round>>,
    counts: BTreeMap<(ProcId, usize), Counts>,
    /// The latches at the times of the latest copies of the data, by the numbers of the copies.
    copies: BTreeMap<u64, Vec<Latch>>,
    /// When the server last lost acknowledged state, if it did. An operation that counted before
    /// may then count again.
    forgot: Option<u64>,
}

impl Checker for Ledger {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        if let Some((proc, name, &deed)) = event.deed::<Deed>() {
            record.tally.grants += u64::from(matches!(deed, Deed::Passes { .. }));
            return record.judge(self.did(proc, name, deed, view));
        }
        match *event {
            Event::Ran {
                proc, ran, clock, ..
            } => record.judge(self.ran(proc, ran, (view.now, clock))),
            Event::Over => {
                if let Some(history) = &record.history {
                    self.tell(history);
                }
            }
            Event::Copied { copy } => {
                self.copies.insert(copy, self.latches.clone());
                if self.copies.len() > COPIES {
                    self.copies.pop_first();
                }
            }
            Event::Forgot { copy } => self.forget(copy, view.now),
            _ => {}
        }
    }
}

impl Ledger {
    pub(super) fn new(names: usize) -> Self {
        Self {
            latches: vec![Latch::default(); names],
            rounds: vec![vec![round(0, 0)]; names],
            ..Self::default()
        }
    }

    /// Records a wait for the judge of histories.
    fn waited(&mut self, name: usize, from: u64, until: u64, outcome: Outcome) {
        if let Some(round) = self.rounds[name].last_mut() {
            round.waits.push(Step {
                from,
                until,
                outcome,
            });
        }
    }

    /// Writes all rounds.
    fn tell(&mut self, history: &History) {
        for (name, rounds) in self.rounds.iter_mut().enumerate() {
            for mut round in rounds.drain(..) {
                round.name = history.name(name);
                history.add(&crate::record::Record::Round(round));
            }
        }
    }

    /// Handles a server that returns to the data of this copy, or to no data.
    fn forget(&mut self, copy: Option<u64>, now: u64) {
        self.forgot = Some(now);
        let copy = copy.and_then(|copy| self.copies.get(&copy));
        for (name, latch) in self.latches.iter_mut().enumerate() {
            let copy = copy.and_then(|latches| latches.get(name));
            latch.forget(&copy.cloned().unwrap_or_default(), now);
        }
    }

    /// Handles a script that the server has run at `now`, and at `clock` of its own clock.
    fn ran(&mut self, proc: ProcId, ran: &Ran<'_>, (now, clock): (u64, u64)) -> Broken {
        let (name, script) = (ran.name()?, ran.source.name);
        if !script.starts_with("latch/") || ran.verdict().is_empty() {
            return None;
        }
        let broken = |what: String| ("P5", format!("{}: {what}", label(name)));
        let latch = &mut self.latches[name];
        if latch.ends.is_some_and(|ends| clock / 1_000 > ends) {
            latch.lose(now);
        }
        let right = latch.reply(script, |at| ran.arg(at), (clock, now));
        if let Some(wrong) = differs(ran, &right) {
            return Some(broken(wrong));
        }
        match ran.verdict() {
            _ if !right.writes => {}
            "set" => self.rounds[name].push(round(now, ran.arg(3).parse().unwrap_or(0))),
            "deleted" => self.rounds[name].push(round(now, 0)),
            "counted" => {
                let counts = self.counts.entry((proc, name)).or_default();
                counts.ran += 1;
                if counts.ran > counts.begun && self.forgot.is_none() {
                    let Counts { begun, ran, .. } = *counts;
                    let what = format!("{begun} count-downs of {proc:?} counted {ran} times");
                    return Some(broken(what));
                }
            }
            _ => {}
        }
        None
    }

    /// Handles a result of a worker.
    fn did(&mut self, proc: ProcId, name: usize, deed: Deed, view: &View) -> Broken {
        let latch = &self.latches[name];
        let mut generations = latch.generations.iter();
        let counts = self.counts.entry((proc, name)).or_default();
        let (kept, told) = match deed {
            Deed::Counts => {
                counts.begun += 1;
                return None;
            }
            Deed::Counted => {
                counts.told += 1;
                let (Counts { told, ran, .. }, name) = (*counts, label(name));
                let what = format!("{told} count-downs of {name} are said to count, {ran} have");
                return (told > ran).then_some(("P5", what));
            }
            Deed::IsOver { n, step } => {
                if let Some(round) = self.rounds[name].last_mut() {
                    round.downs.extend((0..n).map(|_| step));
                }
                return None;
            }
            Deed::Passes { since, prompt } => {
                self.waited(name, since, view.now, Outcome::Ok);
                return self.passes(proc, name, since, prompt, view);
            }
            Deed::IsShutOut { since } => {
                let shut = generations.any(|it| it.was_shut_at(since));
                self.waited(name, since, view.now, Outcome::Fail);
                (shut, "it is shut, and it was open throughout")
            }
            Deed::FindsNone { since } => (latch.was_absent(since), "nobody has set it"),
            Deed::IsDeleted { since } => (
                generations.any(|it| it.is_gone() && it.lasted_to(since)),
                "it was deleted",
            ),
        };
        let what = || format!("a waiter of {} was told that {told}", label(name));
        (!kept).then(|| ("P13", what()))
    }

    /// Checks a waiter that passes: a generation that existed during its wait must have opened. If
    /// no fault interferes, it must have opened just now.
    fn passes(&self, proc: ProcId, name: usize, since: u64, prompt: bool, view: &View) -> Broken {
        // This is the latest generation that the worker may have waited for. A server that has
        // forgotten may have had an older one meanwhile.
        let generations = self.latches[name].generations.iter().rev();
        let lasted = |it: &Generation| it.lasted_to(since) || self.forgot >= Some(since);
        let (name, mut lasting) = (label(name), generations.filter(|it| lasted(it)));
        let Some(opened) = lasting.find_map(|it| it.opened) else {
            let what = format!("a waiter passes {name} since {since}, and nothing has opened");
            return Some(("P12", what));
        };
        let conditions = &view.conditions;
        if !prompt {
            return None;
        }
        // The waiter is told at once, or as soon as messages reach it. If a message is lost, the
        // waiter checks by itself.
        let hears = opened.max(since + SETTLING + 16 * conditions.delay);
        let due = if conditions.calm {
            hears + PROMPT
        } else if conditions.calm_but_for_pubsub && !view.is_unsubscribed(proc) {
            hears.max(view.resubscribed + NOTICED) + PROMPT
        } else if conditions.calm_but_for_messages {
            hears + LOOK
        } else {
            return None;
        };
        let late = view.now.saturating_sub(opened) / 1_000;
        let what = || format!("a waiter passes {name} {late} ms after it opened");
        (view.now > due + 6 * conditions.delay).then(|| ("P8", what()))
    }
}

/// Begins a round: the server sets the latch now. One without a latch is open.
fn round(now: u64, count: u32) -> Round {
    Round {
        name: String::new(),
        from: now,
        set: now,
        until: now,
        count,
        downs: Vec::new(),
        waits: Vec::new(),
    }
}

/// The number of copies that are kept: a few more than are in use at a time.
const COPIES: usize = 100;

/// The longest time of a message without faults in µs, besides six delays.
const PROMPT: u64 = 10_000;

/// The delay in µs until a client notices a subscription that breaks as it is confirmed.
const NOTICED: u64 = 400_000;

/// The longest time between two looks, and the delay that a broken subscription may add, in µs.
const LOOK: u64 = 2_400_000 + 1_000_000;

/// The time in µs after which a waiter is subscribed.
const SETTLING: u64 = 30_000;
