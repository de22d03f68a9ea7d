//! Which holds are to be renewed when.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{backoff::unit, time::Moment};

/// The holds whose lease the watchdog renews, in order of their next renewal.
///
/// Knows a payload per hold (what to send) and no primitive. Order of use: [`insert`](Self::insert) when a hold is delivered;
/// [`take_due`](Self::take_due) when [`next_due`](Self::next_due) has come; then for each one taken exactly one of
/// [`renewed`](Self::renewed) and [`failed`](Self::failed); [`remove`](Self::remove) at any time ends it, and answers that come later change nothing.
#[derive(Debug)]
pub struct RenewalTable<T> {
    entries: BTreeMap<u64, Entry<T>>,
    due: BTreeSet<(Moment, u64)>,
}

#[derive(Debug)]
struct Entry<T> {
    payload: T,
    lease: Duration,
    /// When it is due; `None` while a renewal is under way.
    next: Option<Moment>,
}

impl<T> RenewalTable<T> {
    /// Returns an empty table.
    pub const fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Adds a hold, or replaces the payload and lease of one that is there.
    pub fn insert(&mut self, id: u64, payload: T, lease: Duration, now: Moment, random: u64) {
        self.remove(id);
        self.entries.insert(
            id,
            Entry {
                payload,
                lease,
                next: None,
            },
        );
        self.schedule(id, now + regular(lease, random));
    }

    /// Takes a hold out; nothing renews it from then on.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        let entry = self.entries.remove(&id)?;
        if let Some(next) = entry.next {
            self.due.remove(&(next, id));
        }
        Some(entry.payload)
    }

    /// Returns when the next renewal is due.
    pub fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Takes what is due at `now`; each is then under way until its answer is told.
    pub fn take_due(&mut self, now: Moment) -> Vec<(u64, T)>
    where
        T: Clone,
    {
        let mut taken = Vec::new();
        while let Some(&(at, id)) = self.due.first().filter(|&&(at, _)| at <= now) {
            self.due.remove(&(at, id));
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.next = None;
                taken.push((id, entry.payload.clone()));
            }
        }
        taken
    }

    /// The renewal of `id` set its lease to `lease`: the next is due after the usual third of that.
    pub fn renewed(&mut self, id: u64, lease: Duration, now: Moment, random: u64) {
        if let Some(entry) = self
            .entries
            .get_mut(&id)
            .filter(|entry| entry.next.is_none())
        {
            entry.lease = lease;
            let next = now + regular(entry.lease, random);
            self.schedule(id, next);
        }
    }

    /// The renewal of `id` had no clear answer: the next is due sooner.
    pub fn failed(&mut self, id: u64, now: Moment, random: u64) {
        if let Some(entry) = self
            .entries
            .get_mut(&id)
            .filter(|entry| entry.next.is_none())
        {
            let next = now + hurried(entry.lease, random);
            self.schedule(id, next);
        }
    }

    /// Returns the number of holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn schedule(&mut self, id: u64, at: Moment) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.next = Some(at);
            self.due.insert((at, id));
        }
    }
}

impl<T> Default for RenewalTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A third of the lease × U(0.8, 1), so that holds taken together do not stay together.
fn regular(lease: Duration, random: u64) -> Duration {
    (lease / 3).mul_f64(0.8 + 0.2 * unit(random))
}

/// A fortieth to a twentieth of the lease, at most 1 s: a dozen tries fit between the first failure and the deadline.
fn hurried(lease: Duration, random: u64) -> Duration {
    (lease / 20)
        .min(Duration::from_secs(1))
        .mul_f64(0.5 + 0.5 * unit(random))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn a_hold_is_renewed_every_third_and_sooner_after_a_failure() {
        let mut table = RenewalTable::new();
        table.insert(1, "a", LEASE, at(0), u64::MAX);
        let due = table.next_due().unwrap();
        assert!(due > at(9_999) && due <= at(10_000));
        assert!(table.take_due(at(9_000)).is_empty());
        assert_eq!(table.take_due(at(10_000)), [(1, "a")]);
        assert!(table.take_due(at(20_000)).is_empty(), "it is under way");
        table.failed(1, at(10_000), 0);
        assert_eq!(table.next_due(), Some(at(10_500)));
        assert_eq!(table.take_due(at(10_500)).len(), 1);
        table.renewed(1, LEASE, at(10_600), 0);
        assert_eq!(table.next_due(), Some(at(18_600)));
    }

    #[test]
    fn an_answer_after_removal_registers_nothing_l10() {
        let mut table = RenewalTable::new();
        table.insert(1, (), LEASE, at(0), 0);
        table.take_due(at(10_000));
        assert!(table.remove(1).is_some());
        table.renewed(1, LEASE, at(10_001), 0);
        table.failed(1, at(10_001), 0);
        assert!(table.is_empty());
        assert_eq!(table.next_due(), None);
    }

    proptest! {
        #[test]
        fn index_and_entries_agree(ops in prop::collection::vec((0_u8..5, 0_u64..6, 0_u64..40_000, any::<u64>()), 0..80)) {
            let mut table = RenewalTable::new();
            let mut now = 0;
            for (op, id, step, random) in ops {
                now += step;
                match op {
                    0 => table.insert(id, id, LEASE, at(now), random),
                    1 => drop(table.remove(id)),
                    2 => drop(table.take_due(at(now))),
                    3 => table.renewed(id, LEASE, at(now), random),
                    _ => table.failed(id, at(now), random),
                }
                let waiting: BTreeSet<_> =
                    table.entries.iter().filter_map(|(id, entry)| Some((entry.next?, *id))).collect();
                prop_assert_eq!(&waiting, &table.due);
            }
        }
    }
}
