//! The additional promise of the fair lock: a grant passes over no earlier waiter that is alive.

use crate::{
    names::label,
    scripts::Ran,
    watch::{OfName, Record, View},
    workload::queue::Queue,
};

/// The queue of a name as the replies of the server imply it.
#[derive(Debug, Default)]
pub(super) struct Order {
    queue: Queue,
    /// The end of the current or the last hold, in ms of the server.
    until: u64,
}

impl OfName for Order {
    fn ran(&mut self, name: usize, now: u64, ran: &Ran<'_>, view: &View, record: &mut Record) {
        let conditions = &view.conditions;
        if conditions.expects_trouble || conditions.loses_writes || conditions.forced {
            return;
        }
        if let Some((who, passed)) = self.passed(ran, now) {
            let name = label(name);
            let what = format!("attempt {who} is granted {name} before {passed}, who came first");
            record.violate("order", what);
        }
    }
}

impl Order {
    /// Handles a script. Returns an attempt that got the name, and a waiter that was passed over.
    fn passed(&mut self, ran: &Ran<'_>, now: u64) -> Option<(String, String)> {
        let lease = now + ran.arg(3).parse().unwrap_or(0);
        self.queue.taken_until = self.until;
        match (ran.source.name, ran.verdict()) {
            ("fair/acquire", "busy") => self.queue.waits(now, ran, 1, ran.number(7) == Some(1)),
            ("fair/acquire", "granted") => {
                // A grant during the current hold repeats a lost reply and does not take the name.
                let takes = ran.number(3) == Some(1) && self.until <= now;
                self.until = self.until.max(lease);
                let room = if takes { 0 } else { u64::MAX };
                let passed = self.queue.granted(now, ran.arg(7), room)?;
                return Some((ran.arg(7).to_owned(), passed));
            }
            ("fair/renew", "renewed") => self.until = self.until.max(lease),
            ("fair/release", verdict) => {
                if verdict == "released" && ran.number(3) == Some(0) {
                    self.until = now;
                }
                self.queue.leaves(now, ran);
            }
            ("fair/withdraw", _) => self.queue.withdrawn(now, ran, 3),
            _ => {}
        }
        let given = ran.given().next()?;
        self.until = given.ends;
        let passed = self.queue.granted(now, given.attempt, 0)?;
        Some((given.attempt.to_owned(), passed))
    }
}
