//! The holds of all seeds in the form of the soak's history, for the judge in `tests/histories`.

use std::{collections::BTreeMap, fs::File, io::Write, sync::Arc};

use super::{
    checker::{Checker, Event},
    record::Record,
    view::{Call, Claim, Id, Part, View},
};
use crate::{exec::ProcId, names::label};

/// Writes each hold when it ends.
#[derive(Debug)]
pub(super) struct History {
    file: Arc<File>,
    seed: u64,
    kind: &'static str,
    owners: BTreeMap<(ProcId, Arc<str>), usize>,
    /// The believed guards: the beginning of each line, and the end of the belief so far.
    open: BTreeMap<Id, (String, u64)>,
}

impl History {
    pub(super) const fn new(file: Arc<File>, seed: u64, kind: &'static str) -> Self {
        Self {
            file,
            seed,
            kind,
            owners: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    fn begin(&mut self, id: Id, claim: &Claim, call: Option<&Call>) {
        let known = self.owners.len();
        let owner = (claim.proc, Arc::clone(&claim.owner));
        let owner = *self.owners.entry(owner).or_insert(known);
        let (kind, units, limit) = match claim.part {
            Part::Units { taken, of } => (self.kind, taken, of),
            Part::Shared => ("read", 1, 1_000),
            Part::Whole if self.kind == "rwlock" => ("write", 1_000, 1_000),
            Part::Whole => (self.kind, 1, 1),
        };
        let (seed, proc, name) = (self.seed, claim.proc, label(claim.name));
        let from = claim.delivered;
        let asked = call.map_or(from, |call| call.since);
        let token = claim.token.unwrap_or(0);
        let line = format!(
            r#"{{"record":"hold","id":{id},"owner":{owner},"process":{proc},"kind":"{kind}","name":"{seed}/{name}","units":{units},"limit":{limit},"token":{token},"asked":{asked},"from":{from},"until":"#
        );
        self.open.insert(id, (line, from));
    }

    /// Writes the holds that have ended.
    fn end(&mut self, view: &View) {
        let rest = r#""deadline":0,"gone":0,"durable":false}"#;
        let mut file = &*self.file;
        self.open.retain(|id, (line, until)| {
            let held = view.claims.contains_key(id);
            if !held {
                // A full disk shows in the judge, which finds a line without an end.
                let _ = file.write_all(format!("{line}{until},{rest}\n").as_bytes());
            }
            held
        });
    }
}

impl Checker for History {
    fn note(&mut self, event: &Event<'_>, view: &View, _: &mut Record) {
        // The judge knows neither these worlds nor the end of a hold by force.
        let conditions = &view.conditions;
        if conditions.expects_trouble || conditions.loses_writes || conditions.forced {
            return;
        }
        match *event {
            Event::Delivered { claim, call } => {
                if let Some((&id, _)) = view.claims.last_key_value() {
                    self.begin(id, claim, call);
                }
            }
            Event::Left { .. } => self.end(view),
            Event::Stepped => {
                for (id, (_, until)) in &mut self.open {
                    let claim = view.claims.get(id);
                    if claim.is_some_and(|claim| {
                        view.exec.is_alive(claim.proc) && claim.believes(view.now)
                    }) {
                        *until = view.now;
                    }
                }
            }
            _ => {}
        }
    }
}
