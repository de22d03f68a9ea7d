//! P6 and P10: no request acts seconds after it was sent, and no attempt acts once it has been
//! ended.

use std::collections::BTreeSet;

use super::{
    checker::{Checker, Event},
    record::Record,
    view::View,
};
use crate::{names::label, scripts::Seen};

/// Records the attempts that were ended on the server.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    ended: BTreeSet<String>,
}

impl Checker for Lateness {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let (proc, ran, seen, sent) = match *event {
            Event::Ran {
                proc,
                ran,
                seen,
                sent,
                ..
            } => (proc, ran, seen, sent),
            // A server that has forgotten an attempt cannot refuse a copy. What the record had of
            // the other servers is not checked any more.
            Event::OneForgot => return self.ended.clear(),
            _ => return,
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
                Seen::Granted { name, attempt } | Seen::Given { name, attempt }
                    if self.ended.contains(attempt) && !view.conditions.forks =>
                {
                    let name = label(*name);
                    let what = format!("attempt {attempt} took {name} after it had been ended");
                    record.violate("P10", view.now, what);
                }
                // Without the keys of the queue, the entry stays until the call is repeated.
                Seen::Ended { attempt, .. } if !attempt.is_empty() && !ran.is_bare() => {
                    self.ended.insert(attempt.clone());
                }
                _ => {}
            }
        }
    }
}

/// The age in µs above which a request must not act if one server serves throughout: 5 s, an error
/// of 1 % for both clocks, and a small margin.
const REACH: u64 = 5_150_000;
