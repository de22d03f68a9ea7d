//! P1 and P2 of work under tokens: it begins in the order of the tokens, and none goes on once
//! later work has begun.

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

/// Per name, the token under which work has begun last, and the greatest.
#[derive(Debug)]
struct Works(Vec<(u64, u64)>);

/// Returns the checker of work on so many names.
pub(super) fn checker(names: usize) -> Box<dyn Checker> {
    Box::new(Works(vec![(0, 0); names]))
}

impl Checker for Works {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Some((proc, number, &deed)) = event.deed::<AtWork>() else {
            return;
        };
        let (name, (latest, greatest)) = (label(number), &mut self.0[number]);
        match deed {
            AtWork::Begins(token) => {
                record.tally.grants += 1;
                if let Some(history) = &mut record.history {
                    history.begins(proc, number, token, view.now);
                }
                let lower = token < *greatest && !view.conditions.diverge();
                if lower || token == *greatest {
                    let what = format!("work on {name} begins with token {token} after {greatest}");
                    record.violate("P2", what);
                }
                (*latest, *greatest) = (token, token.max(*greatest));
            }
            AtWork::GoesOn(token) => {
                if let Some(history) = &mut record.history {
                    history.goes_on(number, token, view.now);
                }
                if token != *latest {
                    let what = format!("work on {name} with token {token} goes on after {latest}");
                    record.violate("P1", what);
                }
            }
        }
    }
}
