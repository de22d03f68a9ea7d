//! The checks of a history.
//!
//! A broken promise counts as *expected*, apart from violations, under three conditions:
//!
//! - The promise does not cover a takeover without the old server's consent.
//! - Two servers that each kept the promise explain it, and one server does not (see [`takeover`]).
//! - Not all replicas had to confirm.
//!
//! No other violation is excused.

mod takeover;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::record::{Attempt, Fault, Hold, Outcome, Record, Round, Step, Takeover, Write};

use crate::{clock::span, names};

use self::takeover::Grant;

/// The result of the checks of a history.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The broken promises, in words.
    pub(crate) violations: Vec<String>,
    /// Events that look like violations but are in no promise: two servers were active.
    pub(crate) expected: Vec<String>,
    /// The times from the reply to a release to the grant of a waiter, sorted.
    pub(crate) handoffs: Vec<Handoff>,
}

/// The passage of a name from one holder to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handoff {
    pub(crate) took: Duration,
    pub(crate) name: String,
    /// The faults during it, on the name's server or on all servers.
    pub(crate) during: Vec<String>,
}

/// Checks a history.
pub(crate) fn check(records: &[Record]) -> Verdict {
    let mut judge = Judge {
        faults: faults(records).collect(),
        verdict: Verdict::default(),
    };
    for (name, holds) in holds_by_name(records) {
        judge.exclusion(name, &holds);
        judge.tokens(name, &holds);
        judge.handoffs(name, &holds);
    }
    let mut stores: BTreeMap<&str, Vec<&Write>> = BTreeMap::new();
    for record in records {
        match record {
            Record::Write(write) => stores.entry(&write.name).or_default().push(write),
            Record::Round(round) => judge.round(round),
            Record::Attempt(wait) if wait.outcome == Outcome::Late => judge.wait(wait, records),
            _ => {}
        }
    }
    for (name, writes) in stores {
        judge.writes(name, &writes);
    }
    judge.verdict.handoffs.sort();
    judge.verdict
}

/// Returns the holds of each name in the order of grants. Only the program in Go judges guards that
/// share a hold, and writes through a fence.
pub(crate) fn holds_by_name(records: &[Record]) -> BTreeMap<&str, Vec<&Hold>> {
    let mut names: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for record in records {
        if let Record::Hold(hold) = record
            && hold.owner == hold.id
        {
            names.entry(&hold.name).or_default().push(hold);
        }
    }
    for holds in names.values_mut() {
        holds.sort_by_key(|hold| hold.from);
    }
    names
}

/// Returns the faults of a history.
pub(crate) fn faults(records: &[Record]) -> impl Iterator<Item = &Fault> {
    records.iter().filter_map(|record| match record {
        Record::Fault(fault) => Some(fault),
        _ => None,
    })
}

struct Judge<'a> {
    faults: Vec<&'a Fault>,
    verdict: Verdict,
}

impl Judge<'_> {
    /// Checks P1: the units that are believed to be held never exceed the limit.
    fn exclusion(&mut self, name: &str, holds: &[&Hold]) {
        // At the same microsecond, ends come before beginnings, because times are known to the
        // microsecond only.
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (at, hold) in holds.iter().enumerate() {
            if hold.until > hold.from {
                moments.push((hold.from, true, at));
                moments.push((hold.until, false, at));
            }
        }
        moments.sort_unstable();
        let mut inside: BTreeSet<usize> = BTreeSet::new();
        for (_, begins, at) in moments {
            if !begins {
                inside.remove(&at);
                continue;
            }
            inside.insert(at);
            let newcomer = holds[at];
            let out: u32 = inside.iter().map(|&at| holds[at].units).sum();
            if out > newcomer.limit {
                let holds = || inside.iter().map(|&at| holds[at]);
                let (who, limit) = (holds().map(Hold::to_string), newcomer.limit);
                let who = who.collect::<Vec<_>>().join("; ");
                let what = format!("{out} of {limit} out of {name}: {who}");
                let durable = holds().all(|hold| hold.durable);
                let grants: Vec<_> = holds().map(Grant::of).collect();
                self.tell(name, what, |_, takeover| {
                    !durable && takeover.explains(&grants, limit)
                });
            }
        }
    }

    /// Checks P2: a token is greater than all tokens that were known when its acquisition began.
    /// `holds` are in the order of grants.
    fn tokens(&mut self, name: &str, holds: &[&Hold]) {
        // A reader has the token of the last writer.
        let rises = |hold: &&&Hold| hold.token > 0 && hold.units == hold.limit;
        let mut known = holds.iter().filter(rises).peekable();
        let mut asked: Vec<_> = holds.iter().filter(rises).collect();
        asked.sort_by_key(|hold| hold.asked);
        let mut greatest: Option<&Hold> = None;
        for hold in asked {
            while let Some(next) = known.next_if(|next| next.from < hold.asked) {
                if greatest.is_none_or(|greatest| next.token > greatest.token) {
                    greatest = Some(next);
                }
            }
            if let Some(before) = greatest.filter(|before| before.token >= hold.token) {
                let what = format!("the token of {name} went back: {before}, then {hold}");
                let durable = before.durable && hold.durable;
                let (first, second) = (Grant::of(before), Grant::of(hold));
                self.tell(name, what, |fault, takeover| {
                    !durable
                        && takeover.divides(&first, &second)
                        && fault.may_have_lost(before.from)
                });
            }
        }
    }

    /// Measures P8: the time from the reply to a release to the next grant, if the next holder was
    /// waiting by then. `holds` are in the order of grants.
    fn handoffs(&mut self, name: &str, holds: &[&Hold]) {
        let holds: Vec<_> = holds.iter().filter(|hold| hold.limit == 1).collect();
        for pair in holds.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            if before.gone > 0 && next.asked < before.gone {
                let took = span(next.from.saturating_sub(before.gone));
                let during = self.during(name, before.gone, next.from);
                self.verdict.handoffs.push(Handoff {
                    took,
                    name: name.to_owned(),
                    during,
                });
            }
        }
    }

    /// Checks P3. A store that compares tokens loses nothing, accepts no lower token, and refuses
    /// no writer with a valid guard. A store that relies on the guard's check loses nothing either,
    /// as long as one server is active.
    fn writes(&mut self, name: &str, writes: &[&Write]) {
        let mut greatest = 0;
        let mut in_order = writes.to_vec();
        in_order.sort_by_key(|write| write.at);
        for write in in_order {
            let fenced = write.token > 0;
            if write.lost > 0 {
                let what = format!("the set {name} lost {} elements: {write:?}", write.lost);
                let others = writes.iter().filter(|other| other.accepted);
                self.tell(name, what, |_, takeover| {
                    !fenced
                        && others
                            .clone()
                            .any(|other| write.overwrote(other) && write.differs(other, takeover))
                });
            }
            if fenced && write.accepted {
                if write.token < greatest {
                    let what = format!("the set {name} took a token below {greatest}: {write:?}");
                    self.verdict.violations.push(what);
                }
                greatest = greatest.max(write.token);
            }
            if fenced && write.valid && !write.accepted {
                let what = format!("the set {name} refused a valid holder: {write:?}");
                let others = writes.iter().filter(|other| other.token > write.token);
                self.tell(name, what, |_, takeover| {
                    others
                        .clone()
                        .any(|other| other.read <= write.at && write.differs(other, takeover))
                });
            }
        }
    }

    /// Checks the latch: no waiter passes before the required number of count-downs has begun, and
    /// all waiters pass when all count-downs are answered.
    fn round(&mut self, round: &Round) {
        let ends = |steps: &[Step], outcome| {
            let steps = steps.iter().filter(move |step| step.outcome == outcome);
            steps.map(|step| step.until).collect::<Vec<_>>()
        };
        let passed = ends(&round.waits, Outcome::Ok);
        let count = round.count as usize;
        let begun = |then| round.downs.iter().filter(|down| down.from <= then).count();
        if let Some(opened) = passed.into_iter().min()
            && begun(opened) < count
        {
            let what = format!("somebody passed a shut latch: {round:?}");
            self.tell(&round.name, what, |_, takeover| {
                round.from < takeover.ended && opened > takeover.began
            });
        }
        let counted = ends(&round.downs, Outcome::Ok);
        let stuck = ends(&round.waits, Outcome::Fail);
        if !stuck.is_empty() && counted.len() >= count {
            let what = format!("somebody waited before an open latch: {round:?}");
            let last = counted.into_iter().max().unwrap_or(0);
            self.tell(&round.name, what, |fault, takeover| {
                round.set < takeover.ended
                    && round.until > takeover.began
                    && fault.may_have_lost(last)
            });
        }
    }

    /// Checks P7 during faults.
    ///
    /// A wait beyond all time limits must have an excuse: faults of the name's server. Faults of
    /// the server of a tied name count too, because a worker that acquires both keeps one while it
    /// waits for the other.
    ///
    /// With many faults on all names, this check shows little. So there must also be no long period
    /// without a holder of any of these names and without a fault. "Long" means longer than the
    /// effects of a fault can block a name.
    fn wait(&mut self, wait: &Attempt, records: &[Record]) {
        let trouble = self.trouble(wait);
        let idle = span(idle(wait, records));
        if trouble < ENOUGH_TROUBLE || idle > TOO_IDLE {
            let what = format!(
                "{:?} of waiting with {trouble:?} of trouble and {idle:?} of nothing at a time: {wait:?}",
                span(wait.until.saturating_sub(wait.from)),
            );
            self.verdict.violations.push(what);
        }
    }

    /// Records an event as expected if two servers that were active for `name` may explain it, and
    /// otherwise as a violation.
    fn tell(&mut self, name: &str, what: String, explained: impl Fn(&Fault, Takeover) -> bool) {
        let mut gaps = self.faults.iter().filter(|fault| fault.hits(name));
        let explains = |fault: &Fault| fault.takeover.is_some_and(|gap| explained(fault, gap));
        let gap = gaps.find(|fault| explains(fault));
        match gap {
            Some(gap) => {
                let what = format!("{what}; {} from {}", gap.kind, gap.from);
                self.verdict.expected.push(what);
            }
            None => self.verdict.violations.push(what),
        }
    }

    /// Returns the total time of the servers' faults that concern the wait. Faults of several
    /// servers may overlap, and each counts.
    fn trouble(&self, wait: &Attempt) -> Duration {
        let concerns = |fault: &&&Fault| fault.names.iter().any(|hit| wait.is_tied_to(hit));
        let faults = self.faults.iter().filter(concerns);
        let within = faults.map(|fault| {
            let end = fault.until.min(wait.until);
            end.saturating_sub(fault.from.max(wait.from))
        });
        span(within.sum())
    }

    fn during(&self, name: &str, from: u64, until: u64) -> Vec<String> {
        let within =
            |fault: &&&Fault| fault.hits(name) && fault.from <= until && fault.until >= from;
        let faults = self.faults.iter().filter(within);
        faults.map(|fault| fault.kind.clone()).collect()
    }
}

/// Returns the longest known period within a wait without a holder of the tied names and without a
/// fault on them.
fn idle(wait: &Attempt, records: &[Record]) -> u64 {
    let busy = records.iter().filter_map(|record| match record {
        Record::Hold(hold) if wait.is_tied_to(&hold.name) => {
            Some((hold.from, hold.until.max(hold.gone)))
        }
        Record::Fault(fault) if fault.names.iter().any(|hit| wait.is_tied_to(hit)) => {
            Some((fault.from, fault.until))
        }
        _ => None,
    });
    let meanwhile = |&(from, until): &(u64, u64)| until > wait.from && from < wait.until;
    let mut busy: Vec<_> = busy.filter(meanwhile).collect();
    // The end of the wait closes the last gap.
    busy.push((wait.until, wait.until));
    busy.sort_unstable();
    let mut since = wait.from;
    let mut longest = 0;
    for (from, until) in busy {
        longest = longest.max(from.saturating_sub(since));
        since = since.max(until);
    }
    longest
}

impl Attempt {
    /// Tells whether the wait may depend on the holder of `name`.
    fn is_tied_to(&self, name: &str) -> bool {
        self.names.iter().any(|own| names::are_tied(own, name))
    }
}

impl Fault {
    fn hits(&self, name: &str) -> bool {
        self.names.iter().any(|hit| hit == name)
    }
}

impl Write {
    /// Tells whether `other` wrote after this writer had read.
    const fn overwrote(&self, other: &Self) -> bool {
        other.at >= self.read && other.at < self.at
    }

    /// Tells whether this writer and `other` may have had the lock from two servers.
    fn differs(&self, other: &Self, takeover: Takeover) -> bool {
        takeover.divides(&self.grant(), &other.grant())
    }

    const fn grant(&self) -> Grant {
        Grant {
            asked: self.asked,
            from: self.read,
            of_many: false,
            units: 1,
        }
    }
}

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, id, units, token) = (&self.kind, self.id, self.units, self.token);
        let (asked, from, until) = (self.asked, self.from, self.until);
        write!(
            f,
            "{kind} {id} ({units}, token {token}, asked {asked}, {from} to {until})"
        )
    }
}

/// The time of faults that excuses a wait of 20 s. With less, a waiter was forgotten.
const ENOUGH_TROUBLE: Duration = Duration::from_secs(1);

/// The longest time for which the effects of faults block a name, as the sum of:
///
/// - the lease of a dead holder, 3 s;
/// - the place of a dead waiter, 5 s;
/// - a look, 2.4 s;
/// - a reply that is delayed on the way, 1.5 s.
const TOO_IDLE: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests;
