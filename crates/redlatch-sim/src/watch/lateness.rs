//! P6 and P10: nothing acts seconds after it was sent, and no attempt once it has been ended.

use std::collections::BTreeSet;

use super::{
    checker::{Checker, Event},
    record::Record,
    view::View,
};
use crate::{names::label, scripts::Seen};

/// Remembers the attempts that were ended on the server.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    ended: BTreeSet<String>,
}

impl Checker for Lateness {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Event::Ran {
            proc, seen, sent, ..
        } = *event
        else {
            return;
        };
        let age = view.now.saturating_sub(sent);
        for seen in seen {
            if let Seen::Granted { name, .. } | Seen::Renewed { name, .. } = *seen
                && age > REACH + view.conditions.servers_differ
            {
                let (name, age) = (label(name), age / 1000);
                let what = format!(
                    "a request of process {proc} acted on {name} {age} ms after it was sent"
                );
                record.violate("P6", view.now, what);
            }
            match seen {
                Seen::Granted { name, attempt } if self.ended.contains(attempt) => {
                    let name = label(*name);
                    let what = format!("attempt {attempt} took {name} after it had been ended");
                    record.violate("P10", view.now, what);
                }
                Seen::Ended { attempt, .. } if !attempt.is_empty() => {
                    self.ended.insert(attempt.clone());
                }
                _ => {}
            }
        }
    }
}

/// A request that is older than this may not act where one server is in charge: 5 s, both clocks
/// off by 1 %, and a little, in µs.
const REACH: u64 = 5_150_000;
