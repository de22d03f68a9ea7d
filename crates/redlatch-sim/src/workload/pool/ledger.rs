//! P1 and the order of grants by the replies of the server: never more permits are out than exist,
//! and no waiter is passed over.

use std::collections::BTreeMap;

use super::{released, size};
use crate::{
    names::label,
    scripts::Ran,
    watch::{OfName, Record, View},
    workload::queue::Queue,
};

/// Permits that were granted together.
#[derive(Debug)]
struct Entry {
    until: u64,
    permits: u64,
}

/// The state of a name that the replies of the server imply.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The holds that the server has granted and that were not released.
    holds: BTreeMap<String, Entry>,
    queue: Queue,
}

impl Pool {
    /// Returns the number of permits that are out.
    fn out(&self, now: u64) -> u64 {
        let live = self.holds.values().filter(|entry| entry.until > now);
        live.map(|entry| entry.permits).sum()
    }

    /// Tells whether permits of this attempt are out, as one hold or with ids. A grant is then a
    /// copy.
    fn has(&self, attempt: &str, now: u64) -> bool {
        let prefix = format!("{attempt}:");
        let of_attempt = self.holds.range(prefix.clone()..);
        let mut of_attempt = of_attempt
            .take_while(|(hold, _)| hold.starts_with(&prefix))
            .chain(self.holds.get_key_value(attempt));
        of_attempt.any(|(_, entry)| entry.until > now)
    }

    /// Records a grant, and tells whether it is a copy.
    fn granted(&mut self, now: u64, ran: &Ran<'_>) -> bool {
        let (attempt, number) = (ran.arg(5), |at| ran.arg(at).parse::<u64>().unwrap_or(0));
        let until = now + ran.number(5).unwrap_or_else(|| number(4));
        let copy = self.has(attempt, now);
        let holds: Vec<_> = match ran.arg(10).is_empty() {
            true => vec![(attempt.to_owned(), number(6))],
            false => (0..number(6))
                .map(|at| (format!("{attempt}:{at}"), 1))
                .collect(),
        };
        for (hold, permits) in holds {
            let out = self.holds.get(&hold).is_some_and(|entry| entry.until > now);
            // A copy repeats a grant of which some permits may have been released or have expired
            // since.
            if copy && !out {
                continue;
            }
            let entry = self.holds.entry(hold).or_insert(Entry { until, permits });
            if !out {
                entry.permits = permits;
            }
            entry.until = entry.until.max(until);
        }
        copy
    }

    fn renewed(&mut self, now: u64, ran: &Ran<'_>) -> Option<()> {
        let lease: u64 = ran.arg(4).parse().ok()?;
        let until = now + ran.number(3).unwrap_or(lease);
        let entry = self.holds.get_mut(ran.arg(5))?;
        entry.until = entry.until.max(until);
        Some(())
    }

    fn released(&mut self, ran: &Ran<'_>) -> Option<()> {
        for (at, hold) in released(ran).enumerate() {
            let verdict = ran.text(2 + 2 * at)?;
            let left = ran.number(3 + 2 * at).unwrap_or(0);
            match self.holds.get_mut(hold) {
                Some(entry) if verdict == "released" && left > 0 => entry.permits = left,
                Some(_) if verdict != "already" => drop(self.holds.remove(hold)),
                _ => {}
            }
        }
        Some(())
    }

    /// Records the grants that a script has made on behalf of waiters.
    fn given(&mut self, name: usize, now: u64, ran: &Ran<'_>, record: &mut Record) {
        for given in ran.given() {
            let attempt = given.attempt;
            let Some(permits) = self.queue.need(attempt) else {
                let what = format!("attempt {attempt} is given {} without waiting", label(name));
                record.violate("order", what);
                continue;
            };
            let until = given.ends;
            let entry = Entry { until, permits };
            self.holds.insert(attempt.to_owned(), entry);
            let out = self.out(now);
            let passed = self.queue.granted(now, attempt, room(name, out));
            judge((name, "given"), attempt, passed, out, record);
        }
    }
}

/// Returns the number of permits that are left if `out` are out.
fn room(name: usize, out: u64) -> u64 {
    u64::from(size(name)).saturating_sub(out)
}

/// Checks a grant that leaves `out` permits out, and that may have passed over a waiter.
fn judge(
    (name, verb): (usize, &str),
    attempt: &str,
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

impl OfName for Pool {
    fn ran(&mut self, name: usize, now: u64, ran: &Ran<'_>, view: &View, record: &mut Record) {
        if view.conditions.expects_trouble || view.conditions.loses_writes {
            return;
        }
        if view.conditions.servers_differ > 0 {
            // The next server's clock may be behind. Entries that have expired by this clock are
            // removed, so that they do not count as live again by that one.
            self.holds.retain(|_, entry| entry.until > now);
        }
        let attempt = ran.arg(5);
        match (ran.source.name, ran.verdict()) {
            ("pool/acquire", "granted") => {
                let copy = self.granted(now, ran);
                let out = self.out(now);
                let room = if copy { u64::MAX } else { room(name, out) };
                let passed = self.queue.granted(now, attempt, room);
                judge((name, "granted"), attempt, passed, out, record);
            }
            ("pool/renew", "renewed") => drop(self.renewed(now, ran)),
            ("pool/release", _) => {
                self.released(ran);
                self.queue.leaves(now, ran);
                self.given(name, now, ran, record);
            }
            ("pool/withdraw", "struck") => {
                // A withdrawal may have ended holds, since nobody stands behind them.
                for attempt in ran.withdrawn(4) {
                    self.holds.remove(&attempt);
                }
                self.queue.withdrawn(now, ran, 4);
                self.given(name, now, ran, record);
            }
            ("pool/acquire", "busy") => {
                let need = ran.arg(6).parse().unwrap_or(0);
                self.queue.waits(now, ran, need, ran.number(5) == Some(1));
            }
            ("pool/acquire", "void") if self.has(attempt, now) => {
                let name = label(name);
                let what = format!("attempt {attempt} is refused, and has permits of {name}");
                record.violate("answered", what);
            }
            _ => {}
        }
    }
}
