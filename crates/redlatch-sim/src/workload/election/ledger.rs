//! The promises of the fence: its mark never falls, and no write is made twice.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    scripts::Ran,
    watch::{Broken, Checker, Event, Record, View},
};

/// The server's record of one fence.
#[derive(Clone, Debug, Default)]
struct Fence {
    /// The highest token that has written.
    mark: u64,
    /// The writes that the server has made.
    written: BTreeSet<String>,
}

/// Compares what the server does with what it may do.
#[derive(Debug)]
pub(super) struct Ledger {
    names: Vec<Fence>,
    /// The fences in each copy of the server's data.
    copies: BTreeMap<u64, Vec<Fence>>,
}

impl Ledger {
    pub(super) fn new(names: usize) -> Self {
        Self {
            names: vec![Fence::default(); names],
            copies: BTreeMap::new(),
        }
    }

    /// Handles a script that the server has run.
    fn ran(&mut self, ran: &Ran<'_>, record: &mut Record) -> Broken {
        let known = &mut self.names[ran.name()?];
        if ran.source.name != "fence/set" {
            return None;
        }
        let (op, token) = (ran.arg(2), ran.arg(3).parse().unwrap_or(0));
        match ran.verdict() {
            "written" if token < known.mark => {
                let what = format!("{token} has written after {}", known.mark);
                Some(("P3", what))
            }
            "written" => {
                known.mark = token;
                let first = known.written.insert(op.to_owned());
                (!first).then(|| ("P5", format!("write {op} was made twice")))
            }
            "fenced" => {
                record.tally.stopped += 1;
                let stale = token < known.mark;
                let what = || format!("{token} is refused, the mark is {}", known.mark);
                (!stale).then(|| ("P3", what()))
            }
            _ => None,
        }
    }
}

impl Checker for Ledger {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match *event {
            // A fence forgets its mark together with the write.
            Event::Ran { ran, .. } if !view.conditions.forks => {
                let broken = self.ran(ran, record);
                record.judge(broken);
            }
            Event::Copied { copy } => {
                self.copies.insert(copy, self.names.clone());
            }
            Event::Forgot { copy } => {
                let copy = copy.and_then(|copy| self.copies.get(&copy)).cloned();
                let names = self.names.len();
                self.names = copy.unwrap_or_else(|| vec![Fence::default(); names]);
            }
            _ => {}
        }
    }
}
