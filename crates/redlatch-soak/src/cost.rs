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
    faults: usize,
    /// For each fault that hit busy names, the longest time without a grant of half of them.
    pauses: Vec<Duration>,
    /// The number of holds that were to last through the fault, and of those whose guards failed a
    /// check.
    holds: usize,
    lost: usize,
}

/// Returns the cost of faults by kind, and that of the times between them. Leaves out faults that
/// hit no name.
pub(crate) fn costs(records: &[Record]) -> BTreeMap<String, Cost> {
    let holds = holds_by_name(records);
    let mut all: Vec<_> = faults(records).cloned().collect();
    all.sort_by_key(|fault| fault.from);
    let calms: Vec<_> = all.windows(2).map(|two| calm(&two[0], &two[1])).collect();
    let mut costs: BTreeMap<_, Cost> = BTreeMap::new();
    for fault in all.iter().filter(|fault| !fault.names.is_empty()) {
        let hit = fault.names.iter().filter_map(|name| holds.get(&**name));
        let cost = costs.entry(fault.kind.clone()).or_default();
        cost.add(fault, hit.map(Vec::as_slice));
    }
    for fault in calms.iter().filter(|fault| fault.from < fault.until) {
        let cost = costs.entry(fault.kind.clone()).or_default();
        cost.add(fault, holds.values().map(Vec::as_slice));
    }
    for cost in costs.values_mut() {
        cost.pauses.sort_unstable();
    }
    costs
}

/// Returns the time between two faults.
fn calm(before: &Fault, after: &Fault) -> Fault {
    Fault {
        kind: "calm".to_owned(),
        from: before.until,
        until: after.from,
        names: Vec::new(),
        takeover: None,
    }
}

impl Cost {
    /// Adds a fault. Each list has the holds of a name that it hit, in the order of grants.
    fn add<'a>(&mut self, fault: &Fault, hit: impl Iterator<Item = &'a [&'a Hold]>) {
        self.faults += 1;
        let mut pauses = Vec::new();
        for holds in hit {
            pauses.extend(pause(fault, holds));
            for hold in held_at(fault.from, holds) {
                let lost = hold.lost > 0;
                self.holds += usize::from(lost || hold.until >= fault.until);
                self.lost += usize::from(lost);
            }
        }
        pauses.sort_unstable();
        self.pauses.extend(pauses.get(pauses.len() / 2));
    }
}

/// Returns the longest time between two grants of a name, from the last one before the fault to the
/// first one after the fault; `None` if the name was not busy. A rare name has long pauses anyhow,
/// and so has one that is kept for long.
fn pause(fault: &Fault, holds: &[&Hold]) -> Option<Duration> {
    let begun = holds.partition_point(|hold| hold.from < fault.from);
    let last = holds.get(begun.checked_sub(1)?)?;
    if last.from + BUSY < fault.from || last.kind == "kept" {
        return None;
    }
    let ended = holds.partition_point(|hold| hold.from <= fault.until);
    let grants = holds[begun - 1..holds.len().min(ended + 1)].windows(2);
    grants.map(|two| span(two[1].from - two[0].from)).max()
}

/// A name is busy if its last grant before a fault was at most this long ago.
const BUSY: u64 = 300_000;

/// Returns the holds at a time, except those whose holders outstay their lease on purpose.
fn held_at<'a>(at: u64, holds: &'a [&'a Hold]) -> impl Iterator<Item = &'a Hold> {
    let granted = holds.partition_point(|hold| hold.from <= at);
    let lasts = move |hold: &&Hold| hold.until.max(hold.lost) > at && hold.kind != "fenced";
    holds[..granted].iter().copied().filter(lasts)
}

/// Writes one line, which `cargo xtask evidence` reads.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            faults,
            pauses,
            holds,
            lost,
        } = self;
        let longest = pauses.last().copied().unwrap_or_default();
        let half = pauses.get(pauses.len() / 2).copied().unwrap_or_default();
        let [half, longest] = [half, longest].map(|pause| pause.as_millis());
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
    fn pauses_of_busy_names_and_holds_that_were_to_last_are_counted() {
        let records = [
            hold("a", 2_900_000, 9_000_000, 0),
            hold("b", 2_000_000, 2_900_000, 0), // Over before the fault.
            hold("b", 2_950_000, 2_990_000, 4_000_000), // Lost in the fault.
            hold("c", 2_000_000, 4_500_000, 0), // Not hit.
            hold("d", 2_000_000, 12_000_000, 0), // Lasts. The name is not busy.
            hold("d", 20_000_000, 21_000_000, 0),
            hold("a", 9_500_000, 9_900_000, 0), // The one before was given back meanwhile.
            hold("a", 20_000_000, 21_000_000, 0),
            fault("crash", 3_000_000, 10_000_000, &["a", "b", "d"]),
            fault("crash", 20_500_000, 20_600_000, &["a"]),
            fault("victims", 1, 99_000_000, &[]),
        ];
        let costs = costs(&records);
        let crash = Cost {
            faults: 2,
            pauses: vec![Duration::from_millis(10_500)],
            holds: 3,
            lost: 1,
        };
        assert_eq!(costs["crash"], crash);
        assert_eq!(
            costs["crash"].to_string(),
            "2 times, 10500 ms without a grant, 10500 ms at most, 1 of 3 holds lost"
        );
        let calm = Cost {
            faults: 1,
            pauses: vec![Duration::from_millis(500)],
            ..Cost::default()
        };
        let last = [
            fault("kill", 1_000_000, 1_200_000, &["a"]),
            fault("kill", 2_000_000, 2_100_000, &["a"]),
        ];
        let busy = [1_100_000, 1_600_000, 2_050_000].map(|at| hold("a", at, at + 1, 0));
        let records: Vec<_> = last.into_iter().chain(busy).collect();
        assert_eq!(super::costs(&records)["calm"], calm);
    }
}
