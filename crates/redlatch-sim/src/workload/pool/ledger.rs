//! P1 and the order of grants by the replies of the server: never more permits are out than exist,
//! and no waiter is passed over.

use std::collections::BTreeMap;

use super::{released, size};
use crate::{
    names::label,
    scripts::Ran,
    watch::{Checker, Event, Record, View},
    workload::queue::Queue,
};

/// Permits that were granted together.
#[derive(Debug)]
struct Entry {
    until: u64,
    permits: u64,
}

/// Per name, the holds that the server has granted and that were not released.
#[derive(Debug)]
pub(super) struct Ledger {
    names: Vec<BTreeMap<String, Entry>>,
    queues: Vec<Queue>,
}

impl Ledger {
    pub(super) fn new(names: usize) -> Self {
        Self {
            names: (0..names).map(|_| BTreeMap::new()).collect(),
            queues: (0..names).map(|_| Queue::default()).collect(),
        }
    }

    /// Records a grant. Returns the number of permits that are out now.
    fn granted(&mut self, name: usize, now: u64, ran: &Ran<'_>) -> Option<u64> {
        let (need, lease): (u64, u64) = (ran.arg(6).parse().ok()?, ran.arg(4).parse().ok()?);
        let until = now + ran.number(5).unwrap_or(lease);
        let attempt = ran.arg(5);
        let holds = self.names.get_mut(name)?;
        let enter = |holds: &mut BTreeMap<_, Entry>, hold, permits| {
            let entry = holds.entry(hold).or_insert(Entry { until, permits });
            if entry.until <= now {
                entry.permits = permits;
            }
            entry.until = entry.until.max(until);
        };
        let copy = is_copy(holds, attempt, now);
        if ran.arg(10).is_empty() {
            enter(holds, attempt.to_owned(), need);
        } else {
            for at in 0..need {
                let hold = format!("{attempt}:{at}");
                // A copy repeats a grant of which some permits may have been released or have
                // expired since.
                let out = holds.get(&hold).is_some_and(|entry| entry.until > now);
                if !copy || out {
                    enter(holds, hold, 1);
                }
            }
        }
        let live = self.names[name].values().filter(|entry| entry.until > now);
        Some(live.map(|entry| entry.permits).sum())
    }

    fn renewed(&mut self, name: usize, now: u64, ran: &Ran<'_>) -> Option<()> {
        let lease: u64 = ran.arg(4).parse().ok()?;
        let until = now + ran.number(3).unwrap_or(lease);
        let entry = self.names.get_mut(name)?.get_mut(ran.arg(5))?;
        entry.until = entry.until.max(until);
        Some(())
    }

    /// Forgets the holds that a withdrawal may have ended, since nobody stands behind them.
    fn withdrawn(&mut self, name: usize, ran: &Ran<'_>) {
        let Some((channel, numbers)) = ran.withdrawn(4) else {
            return;
        };
        let client = channel.rsplit(':').next().unwrap_or_default();
        for number in numbers {
            self.names[name].remove(&format!("{client}:{number}"));
        }
    }

    fn released(&mut self, name: usize, ran: &Ran<'_>) -> Option<()> {
        let live = self.names.get_mut(name)?;
        for (at, hold) in released(ran).enumerate() {
            let verdict = ran.text(2 + 2 * at)?;
            let left = ran.number(3 + 2 * at).unwrap_or(0);
            match live.get_mut(hold) {
                Some(entry) if verdict == "released" && left > 0 => entry.permits = left,
                Some(_) if verdict != "already" => drop(live.remove(hold)),
                _ => {}
            }
        }
        Some(())
    }
}

impl Ledger {
    /// Records the grants that a script has made on behalf of waiters.
    fn given(&mut self, name: usize, now: u64, ran: &Ran<'_>, record: &mut Record) {
        let of = u64::from(size(name));
        for given in ran.given() {
            let attempt = given.attempt;
            let Some(permits) = self.queues[name].need(attempt) else {
                let what = format!("attempt {attempt} is given {} without waiting", label(name));
                record.violate("order", what);
                continue;
            };
            let until = given.ends;
            let holds = &mut self.names[name];
            holds.insert(attempt.to_owned(), Entry { until, permits });
            let live = holds.values().filter(|entry| entry.until > now);
            let out: u64 = live.map(|entry| entry.permits).sum();
            let room = of.saturating_sub(out);
            let passed = self.queues[name].given(now, given, room);
            judge(name, attempt, "given", passed, out, record);
        }
    }
}

/// Checks a grant that leaves `out` permits out, and that may have passed over a waiter.
fn judge(
    name: usize,
    attempt: &str,
    verb: &str,
    passed: Option<String>,
    out: u64,
    record: &mut Record,
) {
    let (of, name) = (u64::from(size(name)), label(name));
    if let Some(passed) = passed {
        let what = format!("attempt {attempt} is {verb} {name} before {passed}, who came first");
        record.violate("order", what);
    }
    if out > of {
        let what = format!("{out} of {of} permits of {name} are out");
        record.violate("P1", what);
    }
}

/// Tells whether permits of this attempt are out, as one hold or with ids. A grant is then a copy.
fn is_copy(holds: &BTreeMap<String, Entry>, attempt: &str, now: u64) -> bool {
    let prefix = format!("{attempt}:");
    let of_attempt = holds.range(prefix.clone()..);
    let mut of_attempt = of_attempt
        .take_while(|(hold, _)| hold.starts_with(&prefix))
        .chain(holds.get_key_value(attempt));
    of_attempt.any(|(_, entry)| entry.until > now)
}

impl Checker for Ledger {
    fn note(&mut self, event: &Event<'_>, view: &View, record: &mut Record) {
        let Some((ran, name, now)) = event.ran() else {
            return;
        };
        if view.conditions.expects_trouble || view.conditions.loses_writes {
            return;
        }
        if view.conditions.servers_differ > 0 {
            // The next server's clock may be behind. Entries that have expired by this clock are
            // removed, so that they do not count as live again by that one.
            self.names[name].retain(|_, entry| entry.until > now);
        }
        match (ran.source.name, ran.verdict()) {
            ("pool/acquire", "granted") => {
                let copy = is_copy(&self.names[name], ran.arg(5), now);
                let out = self.granted(name, now, ran).unwrap_or(0);
                let of = u64::from(size(name));
                let room = if copy {
                    u64::MAX
                } else {
                    of.saturating_sub(out)
                };
                let passed = self.queues[name].granted(now, ran, room);
                let attempt = ran.arg(5);
                judge(name, attempt, "granted", passed, out, record);
            }
            ("pool/renew", "renewed") => drop(self.renewed(name, now, ran)),
            ("pool/release", _) => {
                self.released(name, ran);
                self.queues[name].leaves(now, ran);
                self.given(name, now, ran, record);
            }
            ("pool/withdraw", "struck") => {
                self.withdrawn(name, ran);
                self.queues[name].withdrawn(now, ran, 4);
                self.given(name, now, ran, record);
            }
            ("pool/acquire", "busy") => {
                let need = ran.arg(6).parse().unwrap_or(0);
                self.queues[name].waits(now, ran, need, ran.number(5) == Some(1));
            }
            ("pool/acquire", "void") if is_copy(&self.names[name], ran.arg(5), now) => {
                let (attempt, name) = (ran.arg(5), label(name));
                let what = format!("attempt {attempt} is refused, and has permits of {name}");
                record.violate("answered", what);
            }
            _ => {}
        }
    }
}
