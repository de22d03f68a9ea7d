//! What faults cost: the time without a grant, and lost holds.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    clock::span,
    record::{Fault, Hold, Record},
    waits::{faults, holds_by_name},
};

/// The cost of all faults of one kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// For each fault, the longest time without a grant of a name that the fault hit.
    pauses: Vec<Duration>,
    /// The number of holds of these names at the beginning of the faults.
    holds: usize,
    /// The number of those whose guards failed a check later.
    lost: usize,
}

/// Returns the cost of faults by kind. Leaves out faults that hit no name.
pub(crate) fn costs(records: &[Record]) -> BTreeMap<String, Cost> {
    let holds = holds_by_name(records);
    let mut costs: BTreeMap<_, Cost> = BTreeMap::new();
    for fault in faults(records).filter(|fault| !fault.names.is_empty()) {
        let cost = costs.entry(fault.kind.clone()).or_default();
        let hit = fault.names.iter().filter_map(|name| holds.get(&**name));
        let hit: Vec<_> = hit.map(Vec::as_slice).collect();
        cost.pauses.push(pause(fault, &hit));
        for hold in hit.iter().flat_map(|holds| held_at(fault.from, holds)) {
            cost.holds += 1;
            cost.lost += usize::from(hold.lost > 0);
        }
    }
    for cost in costs.values_mut() {
        cost.pauses.sort_unstable();
    }
    costs
}

/// Returns the longest time between two grants, from the last one before the fault to the first one
/// after the fault. Each list is in the order of grants.
fn pause(fault: &Fault, hit: &[&[&Hold]]) -> Duration {
    let (mut last, mut next, mut grants) = (None, None, Vec::new());
    for holds in hit {
        let begun = holds.partition_point(|hold| hold.from < fault.from);
        let ended = holds.partition_point(|hold| hold.from <= fault.until);
        let from = |at: usize| holds.get(at).map(|hold| hold.from);
        last = last.max(begun.checked_sub(1).and_then(from));
        next = [next, from(ended)].into_iter().flatten().min();
        grants.extend(holds[begun..ended].iter().map(|hold| hold.from));
    }
    grants.extend([last, next].into_iter().flatten());
    grants.sort_unstable();
    let pauses = grants.windows(2).map(|two| two[1] - two[0]);
    span(pauses.max().unwrap_or_default())
}

/// Returns the holds at a time, except those whose holders outstay their lease on purpose.
fn held_at<'a>(at: u64, holds: &'a [&Hold]) -> impl Iterator<Item = &'a Hold> {
    let granted = holds.partition_point(|hold| hold.from <= at);
    let lasts = move |hold: &&Hold| hold.until.max(hold.lost) > at && hold.kind != "fenced";
    holds[..granted].iter().copied().filter(lasts)
}

/// Writes one line, which `cargo xtask evidence` reads.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pauses,
            holds,
            lost,
        } = self;
        let longest = pauses.last().copied().unwrap_or_default();
        let half = pauses.get(pauses.len() / 2).copied().unwrap_or_default();
        let [half, longest] = [half, longest].map(|pause| pause.as_millis());
        let faults = pauses.len();
        write!(
            f,
            "{faults} times, {half} ms without a grant, {longest} ms at most, {lost} of {holds} holds lost"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(name: &str, from: u64, until: u64, lost: u64) -> Record {
        Record::Hold(Hold {
            name: name.to_owned(),
            from,
            until,
            lost,
            ..Hold::default()
        })
    }

    fn fault(kind: &str, from: u64, until: u64, names: &[&str]) -> Record {
        Record::Fault(Fault {
            kind: kind.to_owned(),
            from,
            until,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            takeover: None,
        })
    }

    #[test]
    fn pauses_and_holds_of_hit_names_are_counted() {
        let records = [
            hold("a", 1_000, 9_000, 0),
            hold("b", 2_000, 2_900, 0),     // Over before the fault.
            hold("b", 2_950, 2_990, 4_000), // Lost in the fault.
            hold("c", 2_000, 4_500, 0),     // Not hit.
            hold("a", 9_500, 9_900, 0),
            hold("a", 20_000, 21_000, 0),
            fault("crash", 3_000, 10_000, &["a", "b"]),
            fault("crash", 20_500, 20_600, &["a"]),
            fault("victims", 1, 99_000, &[]),
        ];
        let costs = costs(&records);
        let crash = Cost {
            pauses: vec![Duration::ZERO, Duration::from_micros(10_500)],
            holds: 3,
            lost: 1,
        };
        assert_eq!(costs, [("crash".to_owned(), crash)].into());
        assert_eq!(
            costs["crash"].to_string(),
            "2 times, 10 ms without a grant, 10 ms at most, 1 of 3 holds lost"
        );
    }
}
