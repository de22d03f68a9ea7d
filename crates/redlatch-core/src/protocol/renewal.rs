//! When each hold is to be renewed.

use std::{collections::BTreeMap, time::Duration};

use super::{backoff::unit, time::Moment};

/// The holds whose lease the watchdog renews, in order of their next renewal.
///
/// The table stores one payload per hold (the request to send) and knows no primitive. The rest of
/// its state is a [`Renewal`], which is stored with the hold. A client may have very many holds,
/// and each caller of the table has its hold at hand.
///
/// Order of use:
///
/// * [`insert`](Self::insert) when a hold is delivered.
/// * [`take_due`](Self::take_due) at the time of [`next_due`](Self::next_due).
/// * [`Renewal::begin`] for each taken hold. If it returns true, then
///   [`answered`](Self::answered).
/// * [`remove`](Self::remove) at any time, which ends the renewals. Later answers change nothing.
#[derive(Debug)]
pub(crate) struct RenewalTable<T> {
    due: BTreeMap<(Moment, u64), T>,
    /// The number of holds, including those whose renewal is under way.
    kept: usize,
}

/// When one hold is to be renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The hold is never renewed.
    #[default]
    Never,
    /// The next renewal has a fixed time.
    At {
        /// The lease that the renewals maintain.
        lease: Duration,
        /// When the next renewal is due.
        due: Moment,
    },
    /// A renewal is under way.
    UnderWay {
        /// The lease that the renewals maintain.
        lease: Duration,
    },
}

/// A hold whose renewal is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due<T> {
    /// The number of the hold.
    pub id: u64,
    /// When the renewal was due.
    pub at: Moment,
    /// The request to send.
    pub payload: T,
}

impl Renewal {
    /// Returns the lease that the renewals maintain, if any.
    pub(crate) const fn lease(&self) -> Option<Duration> {
        match *self {
            Self::Never => None,
            Self::At { lease, .. } | Self::UnderWay { lease } => Some(lease),
        }
    }

    /// Marks the renewal that was due at `at`, and that the caller took from the table, as under
    /// way. Returns `false` if the hold was removed or its renewal was postponed in the meantime.
    pub(crate) fn begin(&mut self, at: Moment) -> bool {
        match *self {
            Self::At { lease, due } if due == at => {
                *self = Self::UnderWay { lease };
                true
            }
            _ => false,
        }
    }
}

impl<T> RenewalTable<T> {
    /// Adds the hold `id`, or replaces its payload and its lease. Its first renewal is due after
    /// half of `within` to all of it, or else as usual.
    pub(crate) fn insert(
        &mut self,
        id: u64,
        renewal: &mut Renewal,
        payload: T,
        (lease, within): (Duration, Option<Duration>),
        now: Moment,
        random: u64,
    ) {
        self.remove(id, renewal);
        self.kept += 1;
        let soon = within.map(|within| within.mul_f64(0.5 + 0.5 * unit(random)));
        let due = now + soon.unwrap_or_else(|| regular(lease, random));
        self.plan(id, renewal, payload, (lease, due));
    }

    /// Renews the hold `id` at `at`, if its next renewal is due later.
    pub(crate) fn hurry(&mut self, id: u64, renewal: &mut Renewal, at: Moment) {
        if let Renewal::At { lease, due } = *renewal
            && at < due
            && let Some(payload) = self.due.remove(&(due, id))
        {
            self.plan(id, renewal, payload, (lease, at));
        }
    }

    /// Removes a hold, which is not renewed any more.
    pub(crate) fn remove(&mut self, id: u64, renewal: &mut Renewal) {
        match std::mem::take(renewal) {
            Renewal::Never => return,
            Renewal::At { due, .. } => drop(self.due.remove(&(due, id))),
            Renewal::UnderWay { .. } => {}
        }
        self.kept -= 1;
    }

    /// Returns when the next renewal is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.due.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Removes and returns the holds whose renewal is due at `now`.
    pub(crate) fn take_due(&mut self, now: Moment) -> Vec<Due<T>> {
        let mut taken = Vec::new();
        while let Some(first) = self.due.first_entry()
            && first.key().0 <= now
        {
            let ((at, id), payload) = first.remove_entry();
            taken.push(Due { id, at, payload });
        }
        taken
    }

    /// Records that the renewal of `id` set its lease to `set`, or had no clear answer. The next
    /// renewal is due after about a third of that lease, or sooner without an answer.
    pub(crate) fn answered(
        &mut self,
        id: u64,
        renewal: &mut Renewal,
        payload: T,
        set: Option<Duration>,
        now: Moment,
        random: u64,
    ) {
        if let Renewal::UnderWay { lease } = *renewal {
            let pause = set.map_or_else(|| hurried(lease, random), |set| steady(set, random));
            let lease = set.unwrap_or(lease);
            self.plan(id, renewal, payload, (lease, now + pause));
        }
    }

    fn plan(
        &mut self,
        id: u64,
        renewal: &mut Renewal,
        payload: T,
        (lease, due): (Duration, Moment),
    ) {
        *renewal = Renewal::At { lease, due };
        self.due.insert((due, id), payload);
    }

    /// Returns the number of holds, including those whose renewal is under way.
    pub(crate) const fn len(&self) -> usize {
        self.kept
    }
}

impl<T> Default for RenewalTable<T> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            kept: 0,
        }
    }
}

/// Returns the first interval: a third of the lease × U(0.8, 1). The spread separates holds that
/// began together.
fn regular(lease: Duration, random: u64) -> Duration {
    (lease / 3).mul_f64(0.8 + 0.2 * unit(random))
}

/// Returns a later interval: close to a third of the lease, because each renewal costs. One in
/// eight is as the first, which separates holds that an outage has brought together.
fn steady(lease: Duration, random: u64) -> Duration {
    if random.is_multiple_of(8) {
        return regular(lease, random);
    }
    (lease / 3).mul_f64(0.97 + 0.03 * unit(random))
}

/// Returns the interval after a failure: a fortieth to a twentieth of the lease, at most 1 s. A
/// dozen tries fit between the first failure and the deadline.
fn hurried(lease: Duration, random: u64) -> Duration {
    (lease / 20)
        .min(Duration::from_secs(1))
        .mul_f64(0.5 + 0.5 * unit(random))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::time::at;

    const LEASE: Duration = Duration::from_secs(30);

    #[test]
    fn a_renewal_in_a_hurry_is_due_sooner_and_never_later() {
        let (mut table, mut one) = (RenewalTable::default(), Renewal::default());
        table.hurry(1, &mut one, at(5));
        assert_eq!(table.next_due(), None, "it is never renewed");
        table.insert(1, &mut one, (), (LEASE, None), at(0), 0);
        table.hurry(1, &mut one, at(20_000));
        assert_eq!(table.next_due(), Some(at(8_000)));
        table.hurry(1, &mut one, at(5));
        let taken = table.take_due(at(5));
        assert!(one.begin(taken[0].at));
        table.hurry(1, &mut one, at(6));
        assert_eq!(table.next_due(), None, "it is under way");
        table.answered(1, &mut one, (), Some(LEASE), at(10), 0);
        assert_eq!((table.next_due(), table.len()), (Some(at(8_010)), 1));
    }

    // L10
    #[test]
    fn an_answer_after_removal_registers_nothing() {
        let (mut table, mut one) = (RenewalTable::default(), Renewal::default());
        table.insert(1, &mut one, (), (LEASE, None), at(0), 0);
        let taken = table.take_due(at(10_000));
        assert!(one.begin(taken[0].at));
        table.remove(1, &mut one);
        table.answered(1, &mut one, (), Some(LEASE), at(10_001), 0);
        table.answered(1, &mut one, (), None, at(10_001), 0);
        assert_eq!(table.len(), 0);
        assert_eq!(table.next_due(), None);
    }

    #[test]
    fn renewal_removed_or_postponed_before_it_begins_does_not_begin() {
        let (mut table, mut one) = (RenewalTable::default(), Renewal::default());
        table.insert(1, &mut one, (), (LEASE, None), at(0), 0);
        let first = table.take_due(at(10_000)).remove(0);
        table.insert(1, &mut one, (), (LEASE, None), at(10_000), 0);
        assert!(!one.begin(first.at));
        let second = table.take_due(at(20_000)).remove(0);
        table.remove(1, &mut one);
        assert!(!one.begin(second.at));
        assert!(table.len() == 0 && table.next_due().is_none());
    }

    proptest! {
        #[test]
        fn table_agrees_with_its_holds(ops in prop::collection::vec((0_u8..5, 0_usize..6, 0_u64..40_000, any::<u64>()), 0..80)) {
            let (mut table, mut holds) = (RenewalTable::default(), [Renewal::Never; 6]);
            let mut now = 0;
            for (op, hold, step, random) in ops {
                now += step;
                let (id, one) = (hold as u64, &mut holds[hold]);
                match op {
                    0 => table.insert(id, one, id, (LEASE, None), at(now), random),
                    1 => table.remove(id, one),
                    2 => for due in table.take_due(at(now)) {
                        prop_assert_eq!(due.id, due.payload);
                        prop_assert!(holds[due.payload as usize].begin(due.at));
                    },
                    3 => table.answered(id, one, id, Some(LEASE), at(now), random),
                    _ => table.answered(id, one, id, None, at(now), random),
                }
                let waiting: BTreeMap<_, _> = (0..).zip(&holds).filter_map(|(id, one)| match *one {
                    Renewal::At { due, .. } => Some(((due, id), id)),
                    _ => None,
                }).collect();
                prop_assert_eq!(&waiting, &table.due);
                let kept = holds.iter().filter(|one| one.lease().is_some());
                prop_assert_eq!(kept.count(), table.len());
            }
        }
    }
}
