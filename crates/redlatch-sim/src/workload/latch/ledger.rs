//! The additional promises of the latch: a count-down counts exactly once, a latch opens once per
//! generation, no waiter passes early, and every waiter passes.

use std::collections::BTreeMap;

use super::{
    Prompt,
    model::{self, Generation, Latch},
};
use crate::{
    exec::ProcId,
    names::label,
    record::{Outcome, Round, Step},
    scripts::Ran,
    watch::{Broken, Checker, Event, History, Record, View},
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
    /// Its wait ended because the latch is open.
    Passes { since: u64, prompt: Prompt },
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
#[derive(Debug)]
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
        let broken = match (event.deed::<Deed>(), *event) {
            (Some((proc, name, &Deed::Passes { since, prompt })), _) => {
                record.tally.grants += 1;
                self.waited(name, since, view.now, Outcome::Ok);
                self.passes(proc, name, since, prompt, view)
            }
            (Some((proc, name, &deed)), _) => {
                if let Deed::IsShutOut { since } = deed {
                    self.waited(name, since, view.now, Outcome::Fail);
                }
                self.did(proc, name, deed)
            }
            (_, Event::Ran { proc, ran, .. }) => self.ran(proc, ran, view.now),
            (_, Event::Over) => {
                if let Some(history) = &record.history {
                    self.tell(history);
                }
                None
            }
            (_, Event::Copied { copy }) => {
                self.copies.insert(copy, self.latches.clone());
                if self.copies.len() > COPIES {
                    self.copies.pop_first();
                }
                None
            }
            (_, Event::Forgot { copy }) => {
                self.forget(copy, view.now);
                None
            }
            _ => None,
        };
        record.judge(broken);
    }
}

impl Ledger {
    pub(super) fn new(names: usize) -> Self {
        Self {
            latches: (0..names).map(|_| Latch::default()).collect(),
            rounds: (0..names).map(|_| vec![round(0, 0)]).collect(),
            counts: BTreeMap::new(),
            copies: BTreeMap::new(),
            forgot: None,
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

    /// Handles a script that the server has run.
    fn ran(&mut self, proc: ProcId, ran: &Ran<'_>, now: u64) -> Broken {
        let name = ran.name()?;
        let broken = |what: String| ("P5", format!("{}: {what}", label(name)));
        let latch = &mut self.latches[name];
        if ran.source.name == "latch/look" {
            return looked(latch, ran).map(broken);
        }
        let acted = match (ran.source.name, ran.verdict()) {
            ("latch/set", "set")
            | ("latch/count_down", "counted" | "deleted")
            | ("latch/delete", "deleted") => true,
            ("latch/set", "refused") | ("latch/count_down" | "latch/delete", "unset") => false,
            _ => return None,
        };
        let op = ran.arg(2);
        if let Some(before) = latch.operations.get(op).copied() {
            return copy(latch, ran, before, acted).map(broken);
        }
        let set = match ran.source.name {
            "latch/set" => ran.arg(3).parse().ok(),
            "latch/delete" => Some(0),
            _ => None,
        };
        self.rounds[name].extend(set.filter(|_| acted).map(|count| round(now, count)));
        if let Some(wrong) = first_run(latch, ran, acted, now) {
            return Some(broken(wrong));
        }
        let present = latch.generations.last().map_or(0, |last| last.number);
        let outcome = if acted {
            model::Outcome::Acted(present)
        } else {
            model::Outcome::Refused
        };
        latch.operations.insert(op.to_owned(), outcome);
        if ran.source.name == "latch/count_down" && acted {
            let counts = self.counts.entry((proc, name)).or_default();
            counts.ran += 1;
            if counts.ran > counts.begun && self.forgot.is_none() {
                let Counts { begun, ran, .. } = *counts;
                let what = format!("{begun} count-downs of process {proc:?} counted {ran} times");
                return Some(broken(what));
            }
        }
        None
    }

    /// Handles a result of a worker.
    fn did(&mut self, proc: ProcId, name: usize, deed: Deed) -> Broken {
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
                let Counts { told, ran, .. } = *counts;
                let label = label(name);
                let what = format!(
                    "{told} count-downs of {label} are said to have counted, and {ran} have"
                );
                return (told > ran).then_some(("P5", what));
            }
            Deed::IsOver { n, step } => {
                if let Some(round) = self.rounds[name].last_mut() {
                    round.downs.extend((0..n).map(|_| step));
                }
                return None;
            }
            Deed::Passes { .. } => return None,
            Deed::IsShutOut { since } => (
                generations.any(|it| it.was_shut_at(since)),
                "it is shut, and it was open throughout",
            ),
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
    fn passes(&self, proc: ProcId, name: usize, since: u64, prompt: Prompt, view: &View) -> Broken {
        // This is the latest generation that the worker may have waited for. A server that has
        // forgotten may have had an older one meanwhile.
        let mut generations = self.latches[name].generations.iter().rev();
        let lasted = |it: &Generation| it.lasted_to(since) || self.forgot >= Some(since);
        let Some(opened) = generations
            .find(|it| lasted(it) && it.opened.is_some())
            .and_then(|it| it.opened)
        else {
            let what = format!(
                "a waiter passes {} since {since}, and nothing has opened",
                label(name)
            );
            return Some(("P12", what));
        };
        let conditions = &view.conditions;
        if prompt == Prompt::No {
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
        if view.now > due + 6 * conditions.delay {
            let late = (view.now - opened) / 1_000;
            let what = format!("a waiter passes {} {late} ms after it opened", label(name));
            return Some(("P8", what));
        }
        None
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

/// Checks the first run of an operation.
fn first_run(latch: &mut Latch, ran: &Ran<'_>, acted: bool, now: u64) -> Option<String> {
    let op = ran.arg(2);
    let argument = ran.arg(3).parse().unwrap_or(0);
    match (ran.source.name, acted) {
        ("latch/set", true) => {
            let Some(number) = ran.number(3) else {
                return Some(format!("{op} set it without ever having run"));
            };
            if latch.is_shut() {
                return Some(format!("{op} sets it while it is set and shut"));
            }
            let before = latch.generations.last().map_or(0, |last| last.number);
            latch.set(number, argument, now);
            (number <= before).then(|| format!("generation {number} follows {before}"))
        }
        ("latch/set", false) if !latch.is_shut() => {
            Some(format!("{op} is refused, and it is not set or open"))
        }
        ("latch/count_down", true) if ran.verdict() == "deleted" => Some(format!(
            "{op} is told that what it never counted was deleted"
        )),
        ("latch/count_down", true) => {
            latch.count_down(argument, now);
            let left = latch
                .present()
                .map(|present| (present.left, present.number));
            said_left(ran, left)
        }
        ("latch/delete", true) => {
            latch.delete(now);
            None
        }
        ("latch/count_down" | "latch/delete", false) if latch.present().is_some() => {
            Some(format!("{op} finds none, and there is one"))
        }
        _ => None,
    }
}

/// Checks a copy of an operation that has run before. It must change nothing and report the result
/// of the first run.
fn copy(latch: &mut Latch, ran: &Ran<'_>, before: model::Outcome, acted: bool) -> Option<String> {
    let op = ran.arg(2);
    let model::Outcome::Acted(generation) = before else {
        return acted.then(|| format!("a copy of {op}, which was refused, acts"));
    };
    if !acted || ran.source.name == "latch/set" && ran.number(3).is_some() {
        return Some(format!(
            "a copy of {op}, which has acted, is {}",
            ran.verdict()
        ));
    }
    if ran.source.name != "latch/count_down" {
        return None;
    }
    let present = latch
        .present()
        .filter(|present| present.number == generation);
    let left = present.map(|present| (present.left, generation));
    let cut_off = latch.find(generation).is_some_and(Generation::was_cut_off);
    if cut_off != (ran.verdict() == "deleted") {
        return Some(format!("a copy of {op} is {}", ran.verdict()));
    }
    if cut_off { None } else { said_left(ran, left) }
}

/// Checks the reply of a count-down: the remaining count and its generation. `expected` is `None`
/// for a generation that is over.
fn said_left(ran: &Ran<'_>, expected: Option<(u32, u64)>) -> Option<String> {
    let said = (ran.number(3), ran.number(4));
    let expected = match expected {
        Some((left, generation)) => (Some(u64::from(left)), Some(generation)),
        None => (Some(0), None),
    };
    (said != expected).then(|| format!("said to be left: {said:?}, and it is {expected:?}"))
}

/// Checks the reply of a look.
fn looked(latch: &mut Latch, ran: &Ran<'_>) -> Option<String> {
    let set = match ran.verdict() {
        "set" => true,
        "unset" => false,
        _ => return None,
    };
    if set != latch.present().is_some() {
        return Some(format!("a look shows {:?}", ran.verdict()));
    }
    if let Some(generation) = latch.present() {
        let said = ran.number(4);
        if said != Some(u64::from(generation.left)) {
            return Some(format!(
                "a look shows {said:?} left, and {} are",
                generation.left
            ));
        }
    }
    for at in 1.. {
        let asked = ran.arg(at);
        if asked.is_empty() {
            break;
        }
        let said = ran.text(6 + at).unwrap_or_default();
        let generation = asked.parse().ok().and_then(|number| latch.find(number));
        let fate = match generation {
            Some(it) if it.forgotten => "deleted",
            Some(it) if it.opened.is_some() => "open",
            Some(it) if it.deleted.is_some() => "deleted",
            Some(_) => "shut",
            None => "unknown",
        };
        let forgotten = generation.is_some_and(|it| latch.opened_since(it) >= RECORD);
        if said != fate && !(forgotten && said == "deleted") {
            return Some(format!(
                "generation {asked} is said to be {said}, and is {fate}"
            ));
        }
    }
    None
}

/// The number of open generations that the server remembers, besides the present one.
const RECORD: usize = 64;

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
