//! The promises of the fence: its mark never falls, and no write is made twice.

use std::collections::BTreeMap;

use crate::{
    scripts::Ran,
    watch::{Broken, Checker, Event, Record, View},
    workload::changes::{differs, model::Fence},
};

/// Compares what the server does with what it may do.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    names: BTreeMap<usize, Fence>,
    /// The fences in each copy of the server's data.
    copies: BTreeMap<u64, BTreeMap<usize, Fence>>,
}

impl Ledger {
    /// Handles a script that the server has run at `clock` of its own clock.
    fn ran(&mut self, ran: &Ran<'_>, clock: u64, record: &mut Record) -> Broken {
        let fence = self.names.entry(ran.name()?).or_default();
        let script = ran.source.name;
        if !script.starts_with("fence/") || ran.verdict().is_empty() {
            return None;
        }
        record.tally.stopped += u64::from(ran.verdict() == "fenced");
        let right = fence.reply(script, |at| ran.arg(at), clock);
        let copy = right.words[0] == "already";
        let promise = if copy { "P5" } else { "P3" };
        differs(ran, &right).map(|what| (promise, what))
    }
}

impl Checker for Ledger {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match *event {
            // A fence forgets its mark together with the write.
            Event::Ran { ran, clock, .. } if !view.conditions.forks => {
                let broken = self.ran(ran, clock, record);
                record.judge(broken);
            }
            Event::Copied { copy } => {
                self.copies.insert(copy, self.names.clone());
            }
            Event::Forgot { copy } => {
                let copy = copy.and_then(|copy| self.copies.get(&copy)).cloned();
                self.names = copy.unwrap_or_default();
            }
            _ => {}
        }
    }
}
