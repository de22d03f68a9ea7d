//! How long a task sleeps that serves a table of what is due when.

use super::time::Moment;

/// Until when such a task sleeps.
///
/// Most of what is set is gone again before it is due, and most is set for later than something
/// else was. None of that wakes the task: it keeps to the time that it was once told of, even if
/// nothing is due then any more, and looks at the table when that has come. So a table in which one
/// entry after the other comes and goes costs one wake-up in the time that an entry is set for, and
/// not one for each.
#[derive(Debug)]
pub(crate) struct SleepDeadline {
    until: Moment,
}

impl SleepDeadline {
    /// Nothing is due.
    pub(crate) const fn endless() -> Self {
        Self {
            until: Moment::FAR_FUTURE,
        }
    }

    /// Something has been set for `at`. Tells whether the task is to be woken, since it would sleep
    /// past that.
    pub(crate) fn is_cut_short(&mut self, at: Moment) -> bool {
        let sooner = at < self.until;
        if sooner {
            self.until = at;
        }
        sooner
    }

    /// The task goes back to sleep at `now`, when the first of the table is due at `first`; returns
    /// when it wakes by itself.
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
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn only_what_is_sooner_wakes_the_task() {
        let mut sleep_deadline = SleepDeadline::endless();
        assert!(sleep_deadline.is_cut_short(at(1_000)));
        assert!(!sleep_deadline.is_cut_short(at(1_000)));
        assert!(!sleep_deadline.is_cut_short(at(1_001)));
        assert!(sleep_deadline.is_cut_short(at(500)));
        assert!(!sleep_deadline.is_cut_short(at(600)));
    }

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
