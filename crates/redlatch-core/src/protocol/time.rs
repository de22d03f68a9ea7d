//! Instants of the process's own clock, as plain values.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub},
    time::Duration,
};

/// An instant on the clock of this process, as the time since that clock's origin.
///
/// Only differences have a meaning. The clock never goes back and, where the platform allows it,
/// also counts the time of a suspended machine. A `Moment` is a plain value, so that decisions can
/// take `now` as an argument. It counts nanoseconds and covers 584 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The origin of the clock.
    pub(crate) const ORIGIN: Self = Self(0);

    /// An instant later than every other one, which means "never".
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Returns the instant that is `elapsed` after the clock's origin.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use std::time::Duration;
    /// use redlatch::Moment;
    ///
    /// let moment = Moment::from_origin(Duration::from_secs(5));
    /// assert_eq!(moment.since_origin(), Duration::from_secs(5));
    /// ```
    pub const fn from_origin(elapsed: Duration) -> Self {
        Self(nanos(elapsed))
    }

    /// Returns the time since the clock's origin.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use std::time::Duration;
    /// use redlatch::Moment;
    ///
    /// let moment = Moment::from_origin(Duration::from_secs(5)) + Duration::from_secs(1);
    /// assert_eq!(moment.since_origin(), Duration::from_secs(6));
    /// ```
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is the later one.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = redlatch::Client::builder("redis://localhost").connect_lazy()?;
    /// let began = client.now();
    /// // … work …
    /// println!("the work took {:?}", client.now().since(began));
    /// # assert!(began.since(client.now()).is_zero());
    /// # Ok(())
    /// # }
    /// ```
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `span` before `self`, but not before the origin.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// use std::time::Duration;
    /// use redlatch::Moment;
    ///
    /// let deadline = Moment::from_origin(Duration::from_secs(30));
    /// assert_eq!(deadline.before(Duration::from_secs(5)).since_origin(), Duration::from_secs(25));
    /// ```
    #[must_use]
    pub const fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

/// Returns the instant `ms` milliseconds after the origin.
#[cfg(test)]
pub(crate) const fn at(ms: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(ms))
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::FAR_FUTURE => f.write_str("Moment(never)"),
            moment => write!(f, "Moment({:?})", moment.since_origin()),
        }
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// Converts to nanoseconds. A `u64` has half the size of a `Duration`, and a client stores a few
/// instants for each hold.
const fn nanos(span: Duration) -> u64 {
    let nanos = span.as_nanos();
    if nanos > u64::MAX as u128 {
        u64::MAX
    } else {
        nanos as u64
    }
}

/// The time until which a task sleeps that serves a table of deadlines.
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
        self.until = self.until.min(at);
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

    #[test]
    fn is_shown_in_seconds() {
        let moment = Moment::from_origin(Duration::from_millis(1_500));
        assert_eq!(format!("{moment:?}"), "Moment(1.5s)");
        assert_eq!(format!("{:?}", Moment::FAR_FUTURE), "Moment(never)");
    }

    #[test]
    fn nothing_is_later_than_never_or_before_the_origin() {
        let never = Moment::FAR_FUTURE;
        for span in [Duration::from_nanos(1), Duration::MAX] {
            assert_eq!(never + span, never);
            assert_eq!(Moment::ORIGIN.before(span), Moment::ORIGIN);
            assert_eq!(
                Moment::ORIGIN.since(Moment::from_origin(span)),
                Duration::ZERO
            );
        }
        let now = Moment::from_origin(Duration::from_secs(1));
        assert_eq!(now + Duration::MAX, never);
        assert_eq!(Moment::from_origin(Duration::MAX), never);
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        assert_eq!((now + year * 100) - now, year * 100);
        assert!(never - now > year * 500);
        assert_eq!(now.since(never), Duration::ZERO);
    }

    #[test]
    fn task_woken_for_a_removed_deadline_keeps_its_time() {
        let mut deadline = SleepDeadline::endless();
        assert!(deadline.is_cut_short(at(1_000)));
        assert_eq!(deadline.resume(at(1), None), at(1_000));
        assert!(
            !deadline.is_cut_short(at(1_100)),
            "it comes after that time"
        );
        assert_eq!(deadline.resume(at(1_000), Some(at(1_100))), at(1_100));
        assert_eq!(deadline.resume(at(1_100), None), Moment::FAR_FUTURE);
    }

    #[test]
    fn no_present_deadline_is_missed() {
        let mut deadline = SleepDeadline::endless();
        assert_eq!(deadline.resume(at(0), Some(at(300))), at(300));
        assert_eq!(deadline.resume(at(10), Some(at(200))), at(200));
        assert_eq!(deadline.resume(at(20), Some(at(900))), at(200));
        assert_eq!(
            deadline.resume(at(250), Some(at(240))),
            at(240),
            "it is late"
        );
    }
}
