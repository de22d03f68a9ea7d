//! What a history must not show.
//!
//! What breaks a promise while another server takes over without the old one's consent is
//! *expected* where the promise says so, and counted apart: if it can be the doing of two servers
//! of which each kept the promise for itself, and of no others (see [`takeover`]), and not all
//! replicas had to confirm. Nothing else is ever excused.

mod takeover;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    clock::span,
    names,
    record::{Fault, Hold, Record, Round, Takeover, Wait, Write},
};

use self::takeover::Grant;

/// What a history shows.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Broken promises, in words.
    pub(crate) violations: Vec<String>,
    /// What looks like one and is in no promise: two servers were in charge.
    pub(crate) expected: Vec<String>,
    /// Times from the answer to a release to the grant to who was waiting, sorted.
    pub(crate) handoffs: Vec<Handoff>,
}

/// A name that passed from one to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handoff {
    pub(crate) took: Duration,
    pub(crate) name: String,
    /// The faults on the name's server, or on all, within it.
    pub(crate) during: Vec<String>,
}

/// Checks a history.
pub(crate) fn check(records: &[Record]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut names: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    let mut stores: BTreeMap<&str, Vec<&Write>> = BTreeMap::new();
    let mut faults = Vec::new();
    for record in records {
        match record {
            Record::Hold(hold) => names.entry(&hold.name).or_default().push(hold),
            Record::Write(write) => stores.entry(&write.name).or_default().push(write),
            Record::Fault(fault) => faults.push(fault),
            Record::Round(_) | Record::Wait(_) => {}
        }
    }
    let mut judge = Judge {
        faults,
        verdict: &mut verdict,
    };
    for (name, mut holds) in names {
        judge.exclusion(name, &holds);
        judge.tokens(name, &holds);
        judge.handoffs(name, &mut holds);
    }
    for (name, writes) in stores {
        judge.writes(name, &writes);
    }
    for record in records {
        match record {
            Record::Round(round) => judge.round(round),
            Record::Wait(wait) => judge.wait(wait, records),
            Record::Hold(_) | Record::Write(_) | Record::Fault(_) => {}
        }
    }
    verdict.handoffs.sort();
    verdict
}

struct Judge<'a> {
    faults: Vec<&'a Fault>,
    verdict: &'a mut Verdict,
}

impl Judge<'_> {
    /// P1: what is believed to be out never exceeds what there is.
    fn exclusion(&mut self, name: &str, holds: &[&Hold]) {
        // At the same microsecond ends come before beginnings: both are known to the microsecond
        // only.
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
                let who: Vec<_> = inside.iter().map(|&at| holds[at].to_string()).collect();
                let what = format!(
                    "{out} of {} out of {name}: {}",
                    newcomer.limit,
                    who.join("; ")
                );
                let durable = inside.iter().all(|&at| holds[at].durable);
                let grants: Vec<_> = inside.iter().map(|&at| Grant::of(holds[at])).collect();
                let limit = newcomer.limit;
                self.tell(name, what, |_, takeover| {
                    !durable && takeover.explains(&grants, limit)
                });
            }
        }
    }

    /// P2: a token is greater than all that were known when its acquisition began.
    fn tokens(&mut self, name: &str, holds: &[&Hold]) {
        let writers: Vec<_> = holds.iter().filter(|hold| hold.token > 0).collect();
        let mut known = writers.clone();
        known.sort_by_key(|hold| hold.from);
        let mut asked = writers;
        asked.sort_by_key(|hold| hold.asked);
        let mut known = known.into_iter().peekable();
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

    /// P8, measured: from the answer to a release to the grant of the next, if it was waiting by
    /// then.
    fn handoffs(&mut self, name: &str, holds: &mut Vec<&Hold>) {
        holds.retain(|hold| hold.limit == 1);
        holds.sort_by_key(|hold| hold.from);
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

    /// P3: a store that compares tokens loses nothing, takes none that is lower, and refuses nobody
    /// whose guard is valid. One that relies on the guard's check loses nothing either, as long as
    /// one server is in charge.
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

    /// The latch: nobody passes before as many count-downs began as it takes, everybody passes when
    /// all are answered.
    fn round(&mut self, round: &Round) {
        if round.passed > 0 && round.begun < round.count {
            let what = format!("somebody passed a shut latch: {round:?}");
            self.tell(&round.name, what, |_, takeover| {
                round.from < takeover.ended && round.opened > takeover.began
            });
        }
        if round.stuck > 0 && round.counted >= round.count {
            let what = format!("somebody waited before an open latch: {round:?}");
            self.tell(&round.name, what, |fault, takeover| {
                round.first < takeover.ended
                    && round.until > takeover.began
                    && fault.may_have_lost(round.last)
            });
        }
    }

    /// P7, while there is trouble: whoever waits for as long as nobody waits has been in the way of
    /// faults of the name's server, or of the server of a name that somebody takes together with
    /// it, and keeps it while he waits for that. Where many faults hit all names that says little:
    /// so neither is there a time, longer than what a fault leaves behind can keep a name from
    /// everybody, in which nobody had any of them and no fault was.
    fn wait(&mut self, wait: &Wait, records: &[Record]) {
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

    /// Expected, if two servers that were in charge of `name` may explain it; otherwise a
    /// violation.
    fn tell(&mut self, name: &str, what: String, explained: impl Fn(&Fault, Takeover) -> bool) {
        let mut gaps = self.faults.iter().filter(|fault| fault.hits(name));
        let gap = gaps.find(|fault| {
            fault
                .takeover
                .is_some_and(|takeover| explained(fault, takeover))
        });
        match gap {
            Some(gap) => {
                let what = format!("{what}; {} from {}", gap.kind, gap.from);
                self.verdict.expected.push(what);
            }
            None => self.verdict.violations.push(what),
        }
    }

    /// Returns how long servers were in trouble that have to do with it. Those of several servers
    /// may overlap, and count for each.
    fn trouble(&self, wait: &Wait) -> Duration {
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

/// Returns the longest time within a wait in which nobody had what it is tied to, as far as known,
/// and nothing was done to it.
fn idle(wait: &Wait, records: &[Record]) -> u64 {
    let mut busy: Vec<(u64, u64)> = records
        .iter()
        .filter_map(|record| match record {
            Record::Hold(hold) if wait.is_tied_to(&hold.name) => {
                Some((hold.from, hold.until.max(hold.gone)))
            }
            Record::Fault(fault) if fault.names.iter().any(|hit| wait.is_tied_to(hit)) => {
                Some((fault.from, fault.until))
            }
            _ => None,
        })
        .filter(|(from, until)| *until > wait.from && *from < wait.until)
        .collect();
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

impl Wait {
    /// Says whether it may be for whoever has `name`.
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
    /// Says whether `other` came after this one had read.
    const fn overwrote(&self, other: &Self) -> bool {
        other.at >= self.read && other.at < self.at
    }

    /// Says whether this and `other` may have had the lock from two servers.
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
        let Self {
            id,
            kind,
            units,
            token,
            asked,
            from,
            until,
            ..
        } = self;
        write!(
            f,
            "{kind} {id} ({units}, token {token}, asked {asked}, {from} to {until})"
        )
    }
}

/// Of a wait of 20 s. With less, somebody was forgotten.
const ENOUGH_TROUBLE: Duration = Duration::from_secs(1);

/// The lease of somebody dead, 3 s, the place of somebody dead, 5 s, a look, 2.4 s, and an answer
/// that is held up on the way, 1.5 s.
const TOO_IDLE: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests;
