//! The promises of jobs: each slot has at most one recorded success, and no more attempts than
//! allowed; a success that is told is on record; a gap is kept.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_once::Slot;

use super::{GAP, RETRIES};
use crate::{
    names::label,
    scripts::Ran,
    watch::{Broken, Checker, Event, Record, View},
};

/// An action that a worker reports.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    /// Its work has begun: this attempt at the slot, with this token.
    Begins(Slot, u32, u64),
    /// Its call has returned that it ran this slot.
    Ran(Slot),
    /// Its call has returned that it lost its claim.
    Lost,
}

/// A job.
#[derive(Debug, Default)]
struct Job {
    /// The slot of each claim, by its attempt.
    claims: BTreeMap<String, String>,
    /// The slots with a recorded success, since the last reset.
    done: BTreeSet<String>,
    /// All slots that ever had one.
    ever: BTreeSet<String>,
    /// The attempts at slots that were claimed since the last reset and have begun.
    begun: BTreeSet<(Slot, u32)>,
    /// The tokens of the claims since the last reset. A run that goes on through a reset does not
    /// count after it.
    tokens: BTreeSet<u64>,
    /// The server time at which the last success was recorded, in ms.
    ended: Option<u64>,
    /// The resets that the server has carried out.
    resets: BTreeSet<String>,
}

/// Compares what the server records, and what workers do, with the promises.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    jobs: BTreeMap<usize, Job>,
    /// Whether the server has lost acknowledged state.
    forgot: bool,
}

impl Checker for Ledger {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let broken = if let Some((_, name, deed)) = event.deed::<Deed>() {
            if matches!(deed, Deed::Lost) && view.conditions.calm {
                let what = format!("a run of {} is lost without a fault", label(name));
                record.violate("P4", what);
            }
            self.jobs.entry(name).or_default().did(name, deed)
        } else if let Event::Ran { ran, .. } = *event {
            let job = |name| self.jobs.entry(name).or_default().ran(name, ran);
            ran.name().and_then(job)
        } else {
            self.forgot |= matches!(event, Event::Forgot { .. });
            None
        };
        record.judge(broken.filter(|_| !self.forgot));
    }
}

impl Job {
    /// Handles a script that the server has run.
    fn ran(&mut self, name: usize, ran: &Ran<'_>) -> Broken {
        let broken = |promise, what: String| Some((promise, format!("{}: {what}", label(name))));
        match (ran.source.name, ran.verdict()) {
            ("once/claim", "granted") => {
                let (now, attempts) = (ran.number(1).unwrap_or(0), ran.number(3).unwrap_or(0));
                let (attempt, slot) = (ran.arg(3).to_owned(), ran.arg(6));
                // A slot that was due is due, although another server's clock may be behind.
                let again = self.claims.values().any(|claimed| claimed == slot);
                let copy = self.claims.insert(attempt, slot.to_owned()).is_some();
                self.tokens.extend(ran.number(4).filter(|_| !copy));
                if attempts < 1 || attempts > u64::from(RETRIES) + 1 {
                    return broken("once-attempts", format!("attempt {attempts} at {slot}"));
                }
                if !copy && self.done.contains(slot) {
                    return broken("once-success", format!("claim of {slot} after its success"));
                }
                let gap = u64::try_from(GAP.as_millis()).unwrap_or(0);
                let gapped = name % 3 == 2 && !slot.starts_with('=') && !again;
                let ended = self.ended.filter(|ended| gapped && now < ended + gap)?;
                let what = format!("a run {} ms after a success", now.saturating_sub(ended));
                broken("once-gap", what)
            }
            ("once/release", "released" | "expired") if ran.arg(7) == "done" => {
                let slot = self.claims.get(ran.arg(2)).cloned()?;
                if !slot.starts_with('=') {
                    self.ended = ran.number(1);
                }
                self.ever.insert(slot.clone());
                let what = format!("{slot} succeeds twice");
                broken("once-success", what).filter(|_| !self.done.insert(slot))
            }
            ("once/reset", "reset") => {
                if self.resets.insert(ran.arg(2).to_owned()) {
                    self.done.clear();
                    self.begun.clear();
                    self.tokens.clear();
                    self.ended = None;
                }
                None
            }
            _ => None,
        }
    }

    /// Handles an action of a worker.
    fn did(&mut self, name: usize, deed: &Deed) -> Broken {
        let name = label(name);
        match deed {
            Deed::Begins(slot, attempt, token) => {
                let counts = self.tokens.contains(token);
                let twice = counts && !self.begun.insert((slot.clone(), *attempt));
                let what = || format!("attempt {attempt} at slot {slot} of {name} twice");
                twice.then(|| ("once-attempts", what()))
            }
            Deed::Lost => None,
            Deed::Ran(slot) => {
                let stored = match slot {
                    Slot::Key(key) => format!("={key}"),
                    other => {
                        let since = other.instant()?.duration_since(std::time::UNIX_EPOCH);
                        since.ok()?.as_millis().to_string()
                    }
                };
                let what = || format!("slot {slot} of {name} is done, and not on record");
                let recorded = self.ever.contains(&stored);
                (!recorded).then(|| ("once-record", what()))
            }
        }
    }
}
