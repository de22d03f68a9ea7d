//! P8: after a release a waiter gets the name at once, or as soon as messages reach every client
//! again. A waiter that has just arrived gets it as soon as the server must know it.

use std::collections::BTreeSet;

use super::{
    checker::{Checker, Event},
    record::Record,
    view::{View, Waits},
};
use crate::{names::label, scripts::Seen};

/// Records per name when a release freed it, if it was not granted since.
#[derive(Debug)]
pub(super) struct HandOff {
    pub(super) freed: Vec<Option<u64>>,
}

impl HandOff {
    fn look(&mut self, view: &View, record: &mut Record) {
        let conditions = &view.conditions;
        let hand_off = HAND_OFF + 6 * conditions.delay;
        let settling = SETTLING + 8 * conditions.delay;
        let unheard = view.subscribed.values().any(|heard| !heard);
        for name in 0..view.names() {
            let Some(freed) = self.freed[name] else {
                continue;
            };
            let from = if conditions.calm {
                freed
            } else {
                freed.max(view.resubscribed)
            };
            if (unheard && !conditions.calm) || view.now < from + hand_off {
                continue;
            }
            if view.now >= from + settling + hand_off {
                // The hand-off is over for every waiter that had arrived by then.
                self.freed[name] = None;
            }
            let of_name = || view.calls.values().filter(|call| call.name == name);
            let polling: BTreeSet<_> = of_name()
                .filter(|call| call.waits == Waits::Polling)
                .map(|call| call.proc)
                .collect();
            let patient = of_name().find(|call| {
                call.waits == Waits::Patiently
                    && call.since < freed
                    && (call.since + settling).max(from) + hand_off <= view.now
                    && view.exec.is_alive(call.proc)
                    && !polling.contains(&call.proc)
            });
            if let Some(call) = patient {
                self.freed[name] = None;
                let (name, proc, span) = (label(name), call.proc, hand_off / 1000);
                let what = format!(
                    "{name} was released, and a waiter of process {proc} did not get it within {span} ms"
                );
                record.violate("P8", view.now, what);
            }
        }
    }
}

impl Checker for HandOff {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match *event {
            Event::Ran { seen, .. } => {
                for seen in seen {
                    match *seen {
                        Seen::Granted { name, .. } => self.freed[name] = None,
                        Seen::Ended {
                            name, freed: true, ..
                        }
                        | Seen::Forced {
                            name, freed: true, ..
                        } if view.conditions.calm || view.conditions.calm_but_for_pubsub => {
                            self.freed[name] = Some(view.now);
                        }
                        _ => {}
                    }
                }
            }
            // A waiter to which a release has given the name has to hear of it as well.
            Event::Delivered { claim, .. } => self.freed[claim.name] = None,
            Event::Looked => self.look(view, record),
            _ => {}
        }
    }
}

/// The longest hand-off without faults in µs, besides six delays: the wake-up, the request and its
/// reply, with the script's text.
const HAND_OFF: u64 = 10_000;

/// The time in µs after which the server knows a waiter.
const SETTLING: u64 = 30_000;
