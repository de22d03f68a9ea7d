//! P4: whoever runs and is past its deadline has been told; what is lost stays lost, and without a fault nothing is.

use std::{collections::BTreeMap, sync::Arc};

use redlatch_core::LossCause;

use super::{
    checker::{Checker, Event},
    record::Record,
    view::{GRAIN, View},
};
use crate::{names::label, scripts::Seen};

/// Remembers which holds (name, hold) are lost, and since when.
#[derive(Debug, Default)]
pub(super) struct Notice {
    told: BTreeMap<(usize, Arc<str>), u64>,
}

impl Checker for Notice {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match *event {
            Event::Delivered { claim, .. } => {
                self.told.remove(&(claim.name, Arc::clone(&claim.hold)));
            }
            Event::Told { claim, cause } => {
                let lost = (claim.name, Arc::clone(&claim.hold));
                self.told.insert(lost, view.now);
                let conditions = &view.conditions;
                let calm = conditions.calm && !conditions.forced && view.healed.is_none();
                if claim.renewed && calm && cause != LossCause::Revoked {
                    let (who, name) = (&claim.who, label(claim.name));
                    let what =
                        format!("{who} lost a renewed hold of {name} without any fault: {cause}");
                    record.violate("P4", view.now, what);
                }
            }
            Event::Ran { seen, sent, .. } => {
                for seen in seen {
                    let Seen::Renewed { name, hold } = seen else {
                        continue;
                    };
                    let told = self.told.get(&(*name, Arc::from(hold.as_str())));
                    if told.is_some_and(|told| sent > told + ON_ITS_WAY) {
                        let what =
                            format!("a hold of {} is renewed though it is lost", label(*name));
                        record.violate("P4", view.now, what);
                    }
                }
            }
            Event::Looked => look(view, record),
            _ => {}
        }
    }
}

fn look(view: &View, record: &mut Record) {
    let now = view.now;
    for claim in view.claims.values() {
        let running = view.exec.pauses(claim.proc).running_since;
        let runs = running.is_some_and(|since| now >= since + GRAIN);
        let Some(until) = claim.valid_until() else {
            continue;
        };
        let overdue = claim.clock.read(now) >= until + GRAIN && now >= claim.delivered + GRAIN;
        let broken = if overdue && !claim.told && runs {
            "is past its deadline and was not told"
        } else if claim.told && claim.believes_again(now) {
            "was told of its loss and believes again"
        } else {
            continue;
        };
        let what = format!("{} {broken}: {}", claim.who, label(claim.name));
        record.violate("P4", now, what);
    }
}

/// A renewal that was in the making when the loss was told may still be sent for so long, in µs.
const ON_ITS_WAY: u64 = 2_000_000;
