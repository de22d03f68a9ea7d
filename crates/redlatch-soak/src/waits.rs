//! How long waiters waited: the hand-offs of a run, and the waits that took too long. The judge of
//! histories judges everything else.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    clock::span,
    names,
    record::{Attempt, Fault, Hold, Outcome, Record},
};

/// The passage of a name from one holder to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handoff {
    pub(crate) took: Duration,
    pub(crate) name: String,
    /// The faults during it, on the name's server or on all servers.
    pub(crate) during: Vec<String>,
}

/// Returns the times from the reply to a release to the grant of a waiter, sorted.
pub(crate) fn handoffs(records: &[Record]) -> Vec<Handoff> {
    let (mut all, known) = (Vec::new(), faults(records).collect::<Vec<_>>());
    for (name, holds) in holds_by_name(records) {
        let holds: Vec<_> = holds.iter().filter(|hold| hold.limit == 1).collect();
        for pair in holds.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            if before.gone > 0 && next.asked < before.gone {
                let within = |fault: &&&Fault| {
                    fault.names.iter().any(|hit| hit == name)
                        && fault.from <= next.from
                        && fault.until >= before.gone
                };
                let during = known.iter().filter(within);
                all.push(Handoff {
                    took: span(next.from.saturating_sub(before.gone)),
                    name: name.to_owned(),
                    during: during.map(|fault| fault.kind.clone()).collect(),
                });
            }
        }
    }
    all.sort();
    all
}

/// Checks P7 during faults. Returns the violations.
///
/// A wait beyond all time limits must have an excuse: faults of the name's server. Faults of the
/// server of a tied name count too, because a worker that acquires both keeps one while it waits
/// for the other.
///
/// With many faults on all names, this check shows little. So there must also be no long period
/// without a holder of any of these names and without a fault. "Long" means longer than the effects
/// of a fault can block a name.
pub(crate) fn forgotten(records: &[Record]) -> Vec<String> {
    let late = records.iter().filter_map(|record| match record {
        // A failover that forgets a release blocks a kept name for its long lease.
        Record::Attempt(wait) if wait.outcome == Outcome::Late && wait.kind != "kept" => Some(wait),
        _ => None,
    });
    let judged = late.filter_map(|wait| {
        let (trouble, idle) = (trouble(wait, records), span(idle(wait, records)));
        let waited = span(wait.until.saturating_sub(wait.from));
        (trouble < ENOUGH_TROUBLE || idle > TOO_IDLE).then(|| {
            format!(
                "{waited:?} of waiting with {trouble:?} of trouble and {idle:?} of nothing at a time: {wait:?}"
            )
        })
    });
    judged.collect()
}

/// Returns the holds of each name in the order of grants, without further guards of a hold.
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

/// Returns the total time of the servers' faults that concern a wait. Faults of several servers may
/// overlap, and each counts.
fn trouble(wait: &Attempt, records: &[Record]) -> Duration {
    let concerns = |fault: &&Fault| fault.names.iter().any(|hit| wait.is_tied_to(hit));
    let within = faults(records).filter(concerns).map(|fault| {
        let end = fault.until.min(wait.until);
        end.saturating_sub(fault.from.max(wait.from))
    });
    span(within.sum())
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
