//! What only the latch promises: a count-down counts exactly once, a latch opens once per generation, nobody passes early, everybody present passes.

use std::collections::BTreeMap;

use redlatch_core::seam::Value;

use super::{
    Prompt,
    model::{Latch, Outcome},
};
use crate::{
    exec::ProcId,
    names::label,
    scripts::Ran,
    watch::{Checker, Event, Record, View},
};

/// What a worker tells of itself. Times are true time in µs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    /// It begins to count down, once.
    Counts,
    /// It was told that it has counted.
    Counted,
    /// Its wait ended because the latch is open.
    Passes { since: u64, prompt: Prompt },
    /// Its wait ended because its time was up.
    IsShutOut { since: u64 },
    /// There was nothing to wait for.
    FindsNone { since: u64 },
    /// What it waited for was deleted.
    IsDeleted { since: u64 },
}

/// Count-downs of one process for one name.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    begun: u64,
    ran: u64,
    told: u64,
}

/// Compares what the server does, and what workers are told, with what a latch is.
#[derive(Debug)]
pub(super) struct Ledger {
    latches: Vec<Latch>,
    counts: BTreeMap<(ProcId, usize), Counts>,
}

impl Checker for Ledger {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let broken = match *event {
            Event::Ran { proc, ran, .. } => self.ran(proc, ran, view.now),
            Event::Did { proc, name, deed } => match deed.downcast_ref::<Deed>() {
                Some(Deed::Passes { since, prompt }) => {
                    record.tally.grants += 1;
                    self.passes(name, *since, *prompt, view)
                }
                Some(deed) => self.did(proc, name, *deed),
                None => None,
            },
            _ => None,
        };
        if let Some((promise, what)) = broken {
            record.violate(promise, view.now, what);
        }
    }
}

/// A promise that is broken, and how.
type Broken = Option<(&'static str, String)>;

impl Ledger {
    pub(super) fn new(names: usize) -> Self {
        Self {
            latches: (0..names).map(|_| Latch::default()).collect(),
            counts: BTreeMap::new(),
        }
    }

    /// The server has run a script.
    fn ran(&mut self, proc: ProcId, ran: &Ran<'_>, now: u64) -> Broken {
        let name = ran.name()?;
        let what = |what: String| Some(("P5", format!("{}: {what}", label(name))));
        let latch = &mut self.latches[name];
        if ran.source.name == "latch/look" {
            return looked(latch, ran).and_then(|wrong| what(wrong));
        }
        let op = ran.arg(2);
        let outcome = match (ran.source.name, ran.verdict()) {
            ("latch/set", "set") | ("latch/count_down", "counted") => Outcome::Acted,
            ("latch/count_down", "deleted") => {
                // Only a copy of one that has counted may say so.
                return (latch.operations.get(op) != Some(&Outcome::Acted))
                    .then(|| format!("{op} is told that it was deleted"))
                    .and_then(what);
            }
            ("latch/delete", "deleted") => Outcome::Acted,
            ("latch/set", "refused") | ("latch/count_down" | "latch/delete", "unset") => {
                Outcome::Refused
            }
            _ => return None,
        };
        let before = latch.operations.get(op).copied();
        if let Some(before) = before {
            let acted_again = ran.source.name == "latch/set" && number(ran.item(3)).is_some();
            if before != outcome || acted_again && outcome == Outcome::Acted {
                return what(format!(
                    "a copy of {op}, which was {before:?}, is {outcome:?}"
                ));
            }
        } else {
            latch.operations.insert(op.to_owned(), outcome);
            if let Some(wrong) = first_run(latch, ran, outcome, now) {
                return what(wrong);
            }
            if ran.source.name == "latch/count_down" && outcome == Outcome::Acted {
                let counts = self.counts.entry((proc, name)).or_default();
                counts.ran += 1;
                if counts.ran > counts.begun {
                    let Counts { begun, ran, .. } = *counts;
                    return what(format!(
                        "{begun} count-downs of process {proc:?} counted {ran} times"
                    ));
                }
            }
        }
        if ran.source.name == "latch/count_down" && outcome == Outcome::Acted {
            return left(latch, ran).and_then(|wrong| what(wrong));
        }
        None
    }

    /// A worker was told something.
    fn did(&mut self, proc: ProcId, name: usize, deed: Deed) -> Broken {
        let latch = &self.latches[name];
        let counts = self.counts.entry((proc, name)).or_default();
        let label = label(name);
        match deed {
            Deed::Counts => counts.begun += 1,
            Deed::Counted => {
                counts.told += 1;
                if counts.told > counts.ran {
                    let Counts { told, ran, .. } = *counts;
                    let what = format!(
                        "{told} count-downs of {label} are said to have counted, and {ran} have"
                    );
                    return Some(("P5", what));
                }
            }
            Deed::IsShutOut { since } => {
                if !latch.generations.iter().any(|it| it.was_shut_at(since)) {
                    return Some((
                        "L4",
                        format!(
                            "a waiter of {label} was told that it is shut, and it was open throughout"
                        ),
                    ));
                }
            }
            Deed::FindsNone { since } => {
                if !latch.was_absent(since) {
                    return Some((
                        "L4",
                        format!("a waiter of {label} was told that nobody has set it"),
                    ));
                }
            }
            Deed::IsDeleted { since } => {
                let mut generations = latch.generations.iter();
                if !generations.any(|it| it.was_cut_off() && it.lasted_to(since)) {
                    return Some((
                        "L4",
                        format!("a waiter of {label} was told that it was deleted"),
                    ));
                }
            }
            Deed::Passes { .. } => {}
        }
        None
    }

    /// A waiter passes: a generation that was there while it waited must have opened, and where nothing goes wrong just now.
    fn passes(&self, name: usize, since: u64, prompt: Prompt, view: &View) -> Broken {
        let mut generations = self.latches[name].generations.iter();
        let Some(opened) = generations
            .find(|it| it.lasted_to(since) && it.opened.is_some())
            .and_then(|it| it.opened)
        else {
            let what = format!(
                "a waiter passes {} since {since}, and nothing has opened",
                label(name)
            );
            return Some(("L3", what));
        };
        let due = opened + PROMPT + 6 * view.conditions.delay;
        let settled = since + SETTLING + 8 * view.conditions.delay < opened;
        if view.conditions.calm && prompt == Prompt::Yes && settled && view.now > due {
            let late = (view.now - opened) / 1_000;
            let what = format!("a waiter passes {} {late} ms after it opened", label(name));
            return Some(("P8", what));
        }
        None
    }
}

/// An operation runs for the first time.
fn first_run(latch: &mut Latch, ran: &Ran<'_>, outcome: Outcome, now: u64) -> Option<String> {
    let op = ran.arg(2);
    match (ran.source.name, outcome) {
        ("latch/set", Outcome::Acted) => {
            let Some(number) = number(ran.item(3)) else {
                return Some(format!("{op} set it without ever having run"));
            };
            if latch.is_shut() {
                return Some(format!("{op} sets it while it is set and shut"));
            }
            let before = latch.generations.last().map_or(0, |last| last.number);
            latch.set(number, ran.arg(3).parse().unwrap_or(0), now);
            (number <= before).then(|| format!("generation {number} follows {before}"))
        }
        ("latch/set", Outcome::Refused) if !latch.is_shut() => {
            Some(format!("{op} is refused, and it is not set or open"))
        }
        ("latch/count_down", Outcome::Acted) => {
            latch.count_down(ran.arg(3).parse().unwrap_or(0), now);
            None
        }
        ("latch/delete", Outcome::Acted) => {
            latch.delete(now);
            None
        }
        ("latch/count_down" | "latch/delete", Outcome::Refused) if latch.present().is_some() => {
            Some(format!("{op} finds none, and there is one"))
        }
        _ => None,
    }
}

/// What a count-down says is left.
fn left(latch: &mut Latch, ran: &Ran<'_>) -> Option<String> {
    let said = ran.item(3).and_then(Value::as_int);
    let (expected, number) = match number(ran.item(4)) {
        Some(number) => {
            let generation = latch.find(number);
            (generation.map(|it| i64::from(it.left)), number)
        }
        None => (Some(0), 0),
    };
    (said != expected).then(|| {
        format!("{said:?} are said to be left of generation {number}, and {expected:?} are")
    })
}

/// What a look shows.
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
        let said = ran.item(4).and_then(Value::as_int);
        if said != Some(i64::from(generation.left)) {
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
        let said = ran.item(6 + at).and_then(Value::as_str).unwrap_or_default();
        let generation = asked.parse().ok().and_then(|number| latch.find(number));
        let fate = match generation {
            Some(it) if it.opened.is_some() => "open",
            Some(it) if it.deleted.is_some() => "deleted",
            Some(_) => "shut",
            None => "unknown",
        };
        if said != fate {
            return Some(format!(
                "generation {asked} is said to be {said}, and is {fate}"
            ));
        }
    }
    None
}

fn number(item: Option<&Value>) -> Option<u64> {
    item.and_then(Value::as_int)
        .and_then(|number| u64::try_from(number).ok())
}

/// A message takes no longer when nothing is wrong, besides six delays.
const PROMPT: u64 = 10_000;

/// Somebody who has waited so long is subscribed.
const SETTLING: u64 = 30_000;
