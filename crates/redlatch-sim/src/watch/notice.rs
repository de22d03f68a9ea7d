//! P4: a running holder past its deadline has been told. A lost hold stays lost, and without a
//! fault no hold is lost.

use std::{collections::BTreeMap, sync::Arc};

use redlatch_core::LossCause;

use super::{
    checker::{Checker, Event},
    record::Record,
    view::{Call, Claim, GRAIN, View},
};
use crate::{names::label, scripts::Act};

/// Records which holds (name, hold) are lost, and since when.
#[derive(Debug, Default)]
pub(super) struct Notice {
    /// When its holder was told of the loss, and the owner as the server stores it.
    told: BTreeMap<(usize, Arc<str>), (u64, Arc<str>)>,
    /// Per name and owner, the hold that was delivered last.
    latest: BTreeMap<(usize, Arc<str>), Arc<str>>,
}

impl Checker for Notice {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        match *event {
            Event::Delivered { claim, .. } => {
                self.told.remove(&(claim.name, Arc::clone(&claim.hold)));
                let owner = (claim.name, Arc::clone(&claim.owner));
                self.latest.insert(owner, Arc::clone(&claim.hold));
            }
            Event::Told { claim, cause } => {
                let lost = (claim.name, Arc::clone(&claim.hold));
                let told = (view.now, Arc::clone(&claim.owner));
                self.told.insert(lost, told);
                // An owner that acquires the name again learns by the grant that it had lost its
                // former hold.
                let latest = self.latest.get(&(claim.name, Arc::clone(&claim.owner)));
                let again = latest.is_some_and(|hold| *hold != claim.hold);
                if !(again && cause == LossCause::Taken) {
                    check_cause(claim, cause, view, record);
                }
            }
            Event::Ran {
                seen, sent, ran, ..
            } => {
                for seen in seen {
                    let (name, hold) = (seen.name, Arc::from(seen.id.as_str()));
                    if seen.act == Act::Granted {
                        let owner = ran.source.list.map_or(2, |list| list.shared + 1);
                        self.taken_again(name, ran.arg(owner));
                    }
                    if seen.act != Act::Renewed {
                        continue;
                    }
                    // Another master may not know of the force.
                    let known = !view.conditions.expects_trouble && !view.conditions.forks;
                    let forced = known && view.was_forced(name, &hold);
                    let told = self.told.get(&(name, hold));
                    let lost = told.is_some_and(|(at, _)| sent > at + ON_ITS_WAY);
                    for (broken, why) in [(forced, "was forced"), (lost, "is lost")] {
                        if broken {
                            let name = label(name);
                            let what = format!("a hold of {name} is renewed though it {why}");
                            record.violate("P4", what);
                        }
                    }
                }
            }
            Event::Looked => look(view, record),
            _ => {}
        }
    }
}

impl Notice {
    /// Records that `owner` acquires `name` again. The server counts on a longer lease than the
    /// owner does. So it may still have the hold that the owner has lost, and may continue it. In
    /// the scripts of kinds with such holds, the owner is the second argument.
    fn taken_again(&mut self, name: usize, owner: &str) {
        self.told
            .retain(|(of, _), (_, by)| *of != name || **by != *owner);
    }
}

/// Checks the cause that a holder was told. Only forced holds are told so, and without faults no
/// other hold is lost.
fn check_cause(claim: &Claim, cause: LossCause, view: &View, record: &mut Record) {
    let (who, name) = (&claim.who, label(claim.name));
    let forced = view.was_forced(claim.name, &claim.hold);
    if cause == LossCause::Revoked && !forced && !view.conditions.expects_trouble {
        let what =
            format!("{who} is told that its hold of {name} was ended by force, which nobody did");
        record.violate("P4", what);
    }
    if !claim.renewed || !view.conditions.calm || view.healed.is_some() {
        return;
    }
    if !forced {
        let what = format!("{who} lost a renewed hold of {name} without any fault: {cause}");
        record.violate("P4", what);
    }
    // The server remembers one forced hold per name.
    let latest = view.forced.keys().rfind(|(of, _)| *of == claim.name);
    let is_latest = latest.is_some_and(|(_, hold)| *hold == claim.hold);
    // The re-entry of a hold whose renewal is forbidden ends with that hold. It may end before any
    // renewal is tried.
    let runs_out = cause == LossCause::Expired && !view.was_ended_by_force(claim);
    // A grant to the same owner shows that its former hold is over, but not why.
    let acquires = |call: &Call| call.proc == claim.proc && call.name == claim.name;
    let shown = cause == LossCause::Taken && view.calls.values().any(acquires);
    if is_latest && cause != LossCause::Revoked && !runs_out && !shown {
        let what = format!("{who} lost {name} by force and is told: {cause}");
        record.violate("P4", what);
    }
}

fn look(view: &View, record: &mut Record) {
    let now = view.now;
    for claim in view.claims.values() {
        let running = view.exec.running_since(claim.proc);
        let runs = running.is_some_and(|since| now >= since + GRAIN);
        let Some(until) = claim.valid_until() else {
            continue;
        };
        let overdue = claim.clock.read(now) >= until + GRAIN && now >= claim.delivered + GRAIN;
        let broken = if overdue && !claim.told && runs {
            "is past its deadline and was not told"
        } else if claim.told && claim.stands(claim.clock.read(now)) {
            "was told of its loss and believes again"
        } else {
            continue;
        };
        let what = format!("{} {broken}: {}", claim.who, label(claim.name));
        record.violate("P4", what);
    }
}

/// A renewal that was being prepared when the loss was told may still be sent for this time, in µs.
const ON_ITS_WAY: u64 = 2_000_000;
