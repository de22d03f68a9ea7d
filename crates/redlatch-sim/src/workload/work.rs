//! P1 and P2 of work under tokens: it begins in the order of the tokens, and none goes on once
//! later work has begun.

use std::collections::BTreeMap;

use crate::{
    names::label,
    watch::{Checker, Event, Record, View},
};

/// What a worker reports of its work under a token.
#[derive(Clone, Copy, Debug)]
pub(super) enum AtWork {
    /// It begins.
    Begins(u64),
    /// It goes on.
    GoesOn(u64),
}

/// Checks the works on each name.
#[derive(Debug, Default)]
pub(super) struct Works(BTreeMap<usize, Work>);

#[derive(Debug, Default)]
struct Work {
    /// The token under which work has begun last.
    latest: u64,
    /// The greatest of these tokens.
    greatest: u64,
    /// For each token that was granted, the greatest then.
    before: BTreeMap<u64, u64>,
}

impl Checker for Works {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        if let Event::Ran { ran, .. } = *event
            && let (Some(number), "granted", Some(token)) =
                (ran.name(), ran.verdict(), ran.number(4))
        {
            let work = self.0.entry(number).or_default();
            work.before.entry(token).or_insert(work.greatest);
        }
        let Some((proc, number, &deed)) = event.deed::<AtWork>() else {
            return;
        };
        let (name, work) = (label(number), self.0.entry(number).or_default());
        let (latest, greatest) = (work.latest, work.greatest);
        match deed {
            AtWork::Begins(token) => {
                record.tally.grants += 1;
                if let Some(history) = &mut record.history {
                    history.begins(proc, number, token, view.now);
                }
                // A grant is answered late if a greater token came after it: two hold the name.
                let before = work.before.remove(&token).unwrap_or(greatest);
                let broken = match view.conditions.diverge() {
                    _ if token == greatest => Some("P2"),
                    false if token <= before => Some("P2"),
                    false if token < greatest => Some("P1"),
                    _ => None,
                };
                if let Some(promise) = broken {
                    let what = format!("work on {name} begins with token {token} after {greatest}");
                    record.violate(promise, what);
                }
                (work.latest, work.greatest) = (token, token.max(greatest));
            }
            AtWork::GoesOn(token) => {
                if let Some(history) = &mut record.history {
                    history.goes_on(number, token, view.now);
                }
                if token != latest {
                    let what = format!("work on {name} with token {token} goes on after {latest}");
                    record.violate("P1", what);
                }
            }
        }
    }
}
