//! How long a task sleeps that serves a table of deadlines.

use super::time::Moment;

/// The time until which such a task sleeps.
///
/// Most deadlines are removed before they are due, and most new ones are later than an existing
/// one. None of these changes wakes the task. The task keeps its wake-up time, even if nothing is
/// due any more at that time, and then reads the table. So a table in which entries come and go one
/// after the other costs one wake-up per deadline span, and not one per entry.
#[derive(Debug)]
pub(crate) struct SleepDeadline {
    until: Moment,
}

impl SleepDeadline {
    /// Creates a deadline for an empty table.
    pub(crate) const fn endless() -> Self {
        Self {
            until: Moment::FAR_FUTURE,
        }
    }

    /// Records a new entry for `at`. Returns whether the caller has to wake the task, which would
    /// otherwise sleep beyond `at`.
    pub(crate) fn is_cut_short(&mut self, at: Moment) -> bool {
        let sooner = at < self.until;
        if sooner {
            self.until = at;
        }
        sooner
    }

    /// Records that the task goes to sleep at `now`, with the first entry due at `first`. Returns
    /// when the task wakes by itself.
    pub(crate) fn resume(&mut self, now: Moment, first: Option<Moment>) -> Moment {
        let first = first.unwrap_or(Moment::FAR_FUTURE);
        if self.until <= now || first < self.until {
            self.until = first;
        }
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::time::at;

    #[test]
    fn task_woken_for_a_removed_deadline_keeps_its_time() {
        let mut sleep_deadline = SleepDeadline::endless();
        assert!(sleep_deadline.is_cut_short(at(1_000)));
        assert_eq!(sleep_deadline.resume(at(1), None), at(1_000));
        assert!(
            !sleep_deadline.is_cut_short(at(1_100)),
            "it comes after that time"
        );
        assert_eq!(sleep_deadline.resume(at(1_000), Some(at(1_100))), at(1_100));
        assert_eq!(sleep_deadline.resume(at(1_100), None), Moment::FAR_FUTURE);
    }

    #[test]
    fn no_present_deadline_is_missed() {
        let mut sleep_deadline = SleepDeadline::endless();
        assert_eq!(sleep_deadline.resume(at(0), Some(at(300))), at(300));
        assert_eq!(sleep_deadline.resume(at(10), Some(at(200))), at(200));
        assert_eq!(sleep_deadline.resume(at(20), Some(at(900))), at(200));
        assert_eq!(
            sleep_deadline.resume(at(250), Some(at(240))),
            at(240),
            "it is late"
        );
    }
}
