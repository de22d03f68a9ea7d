//! What workers did and got, for the judge in `tests/histories`.

use std::{collections::BTreeMap, fs::File, io::Write, sync::Arc};

use crate::record::{Hold, Record as Line};

use super::{
    checker::{Checker, Event},
    record::Record,
    view::{Call, Claim, Conditions, Id, Part, View},
};
use crate::{exec::ProcId, names::label};

/// Writes the records of one seed.
#[derive(Debug)]
pub struct History {
    file: Arc<File>,
    seed: u64,
    kind: &'static str,
    /// The number of holds.
    holds: u64,
    /// By name and token, the work that has begun.
    work: BTreeMap<(usize, u64), Hold>,
}

impl History {
    /// Starts the records of a seed; `None` if the judge does not know its world. The judge knows
    /// neither servers that forget nor the end of a hold by force.
    pub(super) fn new(
        file: Option<&Arc<File>>,
        seed: u64,
        kind: &'static str,
        conditions: &Conditions,
    ) -> Option<Self> {
        let unknown = conditions.expects_trouble || conditions.loses_writes || conditions.forced;
        let file = Arc::clone(file.filter(|_| !unknown)?);
        Some(Self {
            file,
            seed,
            kind,
            holds: 0,
            work: BTreeMap::new(),
        })
    }

    /// Returns a name that is unique over all seeds.
    pub fn name(&self, name: usize) -> String {
        format!("{}/{}", self.seed, label(name))
    }

    /// Returns a hold of the whole name by an owner of its own, from `now` on.
    pub fn hold(&mut self, proc: ProcId, name: usize, now: u64) -> Hold {
        self.holds += 1;
        Hold {
            id: self.holds,
            owner: self.holds,
            process: u32::try_from(proc).unwrap_or(u32::MAX),
            kind: self.kind.to_owned(),
            name: self.name(name),
            units: 1,
            limit: 1,
            asked: now,
            from: now,
            until: now,
            ..Hold::default()
        }
    }

    /// Records that work under a token begins.
    pub fn begins(&mut self, proc: ProcId, name: usize, token: u64, now: u64) {
        let hold = self.hold(proc, name, now);
        let before = self.work.insert((name, token), Hold { token, ..hold });
        if let Some(hold) = before {
            self.add(&Line::Hold(hold));
        }
    }

    /// Records that work under a token goes on.
    pub fn goes_on(&mut self, name: usize, token: u64, now: u64) {
        if let Some(hold) = self.work.get_mut(&(name, token)) {
            hold.until = now;
        }
    }

    /// Writes the work that has begun.
    pub(super) fn over(&mut self) {
        for hold in std::mem::take(&mut self.work).into_values() {
            self.add(&Line::Hold(hold));
        }
    }

    /// Writes a record.
    pub fn add(&self, line: &Line) {
        // A full disk shows in the judge, which finds a line without an end.
        let line = line.line().map(|line| format!("{line}\n"));
        let _ = line.map(|line| (&*self.file).write_all(line.as_bytes()));
    }
}

/// Writes each hold of a guard when it ends.
#[derive(Debug, Default)]
pub(super) struct Holds {
    owners: BTreeMap<(ProcId, Arc<str>), u64>,
    /// The believed guards. Each hold ends when it was believed for the last time.
    open: BTreeMap<Id, Hold>,
}

impl Holds {
    fn begin(&mut self, id: Id, claim: &Claim, call: Option<&Call>, history: &mut History) {
        let known = self.owners.len() as u64;
        let owner = (claim.proc, Arc::clone(&claim.owner));
        let owner = *self.owners.entry(owner).or_insert(known);
        let hold = history.hold(claim.proc, claim.name, claim.delivered);
        let (kind, units, limit) = match claim.part {
            Part::Units { taken, of } => (hold.kind, taken, of),
            Part::Shared => ("read".to_owned(), 1, 1_000),
            Part::Whole if hold.kind == "rwlock" => ("write".to_owned(), 1_000, 1_000),
            Part::Whole => (hold.kind, 1, 1),
        };
        let number = |units| u32::try_from(units).unwrap_or(u32::MAX);
        let hold = Hold {
            owner,
            kind,
            units: number(units),
            limit: number(limit),
            token: claim.token.unwrap_or(0),
            asked: call.map_or(claim.delivered, |call| call.since),
            ..hold
        };
        self.open.insert(id, hold);
    }

    /// Writes the holds that have ended.
    fn end(&mut self, view: &View, history: &History) {
        self.open.retain(|id, hold| {
            let lasts = view.claims.contains_key(id);
            if !lasts {
                history.add(&Line::Hold(hold.clone()));
            }
            lasts
        });
    }
}

impl Checker for Holds {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Some(history) = &mut record.history else {
            return;
        };
        match *event {
            Event::Delivered { claim, call } => {
                if let Some((&id, _)) = view.claims.last_key_value() {
                    self.begin(id, claim, call, history);
                }
            }
            Event::Left { .. } => self.end(view, history),
            Event::Stepped => {
                for (id, hold) in &mut self.open {
                    let claim = view.claims.get(id);
                    if claim.is_some_and(|claim| view.is_believed(claim)) {
                        hold.until = view.now;
                    }
                }
            }
            _ => {}
        }
    }
}
