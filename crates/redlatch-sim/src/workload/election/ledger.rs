//! The additional promises of the election and the fence: no work of a term after the next began,
//! and the mark never falls.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_core::Token;

use crate::{
    names::label,
    scripts::Ran,
    watch::{Broken, Checker, Event, Record, View},
};

/// An action that a leader reports.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    /// The work of a term begins.
    Begins(Token),
    /// The work or a task of a term is at work.
    Works(Token),
}

/// The known state of one name.
#[derive(Debug, Default)]
struct Known {
    /// The latest term that has begun, and the greatest token.
    latest: Option<Token>,
    greatest: u64,
    fence: Fence,
}

/// The server's record of one fence.
#[derive(Clone, Debug, Default)]
struct Fence {
    /// The highest token that has written.
    mark: u64,
    /// The writes that the server has made.
    written: BTreeSet<String>,
}

/// Compares what leaders and server do with what they may do.
#[derive(Debug)]
pub(super) struct Ledger {
    names: Vec<Known>,
    /// The fences in each copy of the server's data.
    copies: BTreeMap<u64, Vec<Fence>>,
}

impl Ledger {
    pub(super) fn new(names: usize) -> Self {
        Self {
            names: (0..names).map(|_| Known::default()).collect(),
            copies: BTreeMap::new(),
        }
    }

    fn did(&mut self, name: usize, deed: Deed, view: &View, record: &mut Record) -> Broken {
        let (known, name) = (&mut self.names[name], label(name));
        match deed {
            Deed::Begins(token) => {
                record.tally.grants += 1;
                known.latest = Some(token);
                let greatest = known.greatest;
                known.greatest = greatest.max(token.as_u64());
                let lower = token.as_u64() < greatest && !view.conditions.diverge();
                (lower || token.as_u64() == greatest).then(|| {
                    let what = format!("a term of {name} has token {token} after {greatest}");
                    ("P2", what)
                })
            }
            Deed::Works(token) => {
                let latest = known.latest.filter(|&latest| latest != token)?;
                let what = format!("term {token} of {name} is at work after {latest} began");
                Some(("P1", what))
            }
        }
    }

    /// Handles a script that the server has run.
    fn ran(&mut self, ran: &Ran<'_>, record: &mut Record) -> Broken {
        let known = &mut self.names[ran.name()?].fence;
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
        if let Some((proc, name, &deed)) = event.deed::<Deed>() {
            if let Some(history) = &mut record.history {
                match deed {
                    Deed::Begins(token) => history.begins(proc, name, token.as_u64(), view.now),
                    Deed::Works(token) => history.goes_on(name, token.as_u64(), view.now),
                }
            }
            let broken = self.did(name, deed, view, record);
            record.judge(broken, view.now);
        }
        match *event {
            // A fence forgets its mark together with the write.
            Event::Ran { ran, .. } if !view.conditions.forks => {
                let broken = self.ran(ran, record);
                record.judge(broken, view.now);
            }
            Event::Copied { copy } => {
                let fences = self.names.iter().map(|known| known.fence.clone());
                self.copies.insert(copy, fences.collect());
            }
            Event::Forgot { copy } => {
                let copy = copy.and_then(|copy| self.copies.get(&copy));
                let mut fences = copy.into_iter().flatten();
                for known in &mut self.names {
                    known.fence = fences.next().cloned().unwrap_or_default();
                }
            }
            _ => {}
        }
    }
}
