//! Leases, their bounds, and how long a holder may rely on one.

use std::{error, fmt, time::Duration};

use super::{server_clock::whole_millis, time::Moment};

/// How long a hold lasts.
///
/// The deadlines on the server follow the server's clock. The holder keeps a deadline of its own,
/// which is shorter by a margin for clock drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    millis: u64,
    renewed: bool,
}

impl Lease {
    /// Shortest fixed lease.
    pub const MIN_FIXED: Duration = Duration::from_millis(50);
    /// Shortest lease that the watchdog renews.
    pub const MIN_RENEWED: Duration = Duration::from_secs(1);
    /// Longest lease of either kind: 365 days.
    pub const MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    /// Creates a lease that ends after `span` unless it is extended: 50 ms to 365 days, in whole
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// [`LeaseError`] if `span` is outside of these bounds.
    pub fn fixed(span: Duration) -> Result<Self, LeaseError> {
        Self::checked(span, false, Self::MIN_FIXED)
    }

    /// Creates a lease of `span` that the watchdog renews every third of `span` while a guard
    /// lives: 1 s to 365 days, in whole milliseconds.
    ///
    /// # Errors
    ///
    /// [`LeaseError`] if `span` is outside of these bounds.
    pub fn renewed(span: Duration) -> Result<Self, LeaseError> {
        Self::checked(span, true, Self::MIN_RENEWED)
    }

    /// Returns the length of the lease.
    pub const fn span(self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// Returns whether the watchdog renews the lease.
    pub const fn is_renewed(self) -> bool {
        self.renewed
    }

    /// Returns how long a request with this lease waits for its reply: a sixth of the lease, at
    /// least 10 ms, at most 1 s.
    pub fn attempt_timeout(self) -> Duration {
        (self.span() / 6).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    fn checked(span: Duration, renewed: bool, min: Duration) -> Result<Self, LeaseError> {
        if span < min || span > Self::MAX {
            return Err(LeaseError { span, min });
        }
        // The server counts whole milliseconds. Rounding down never promises too much.
        let millis = whole_millis(span);
        Ok(Self { millis, renewed })
    }
}

impl Default for Lease {
    /// Returns a lease of 30 s that the watchdog renews.
    fn default() -> Self {
        Self {
            millis: 30_000,
            renewed: true,
        }
    }
}

/// The error for a lease that is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseError {
    span: Duration,
    min: Duration,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a lease of {:?} is not allowed; it is {:?} to 365 days",
            self.span, self.min
        )
    }
}

impl error::Error for LeaseError {}

/// How far clocks are trusted: each may run faster or slower than true time by `drift`.
///
/// The rule is from C. Gray and D. Cheriton, "Leases", SOSP 1989. The holder counts its deadline
/// from the moment before it sent the request. It subtracts the largest difference between the two
/// clocks over one lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trust {
    drift: f64,
}

impl Trust {
    /// Returns the trust that clocks run within `drift` of true time, where 0.01 is one per cent.
    /// Bounds: 0 to 0.2.
    pub(crate) fn new(drift: f64) -> Option<Self> {
        (0.0..=0.2).contains(&drift).then_some(Self { drift })
    }

    /// Returns the margin that a holder subtracts from a lease: 2 × drift × lease, 2 ms for
    /// rounding, and 2 ms for the timer.
    pub(crate) fn margin(self, lease: Duration) -> Duration {
        lease.mul_f64(2.0 * self.drift) + ROUNDING + TIMER_GRAIN
    }

    /// Returns until when a holder that sent its request at `sent` may rely on a lease of `span`.
    pub(crate) fn valid_until(self, sent: Moment, span: Duration) -> Moment {
        sent + span.saturating_sub(self.margin(span))
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self { drift: 0.01 }
    }
}

/// The server truncates to whole milliseconds twice.
const ROUNDING: Duration = Duration::from_millis(2);

/// A timer may fire this late. `lost()` is armed this much before the deadline.
pub(crate) const TIMER_GRAIN: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_margin_covers_both_clocks() {
        let trust = Trust::default();
        assert_eq!(trust.margin(30_000 * MS), 604 * MS);
        let sent = Moment::from_origin(1000 * MS);
        assert_eq!(trust.valid_until(sent, 30_000 * MS), sent + 29_396 * MS);
        assert_eq!(trust.valid_until(sent, 50 * MS), sent + 45 * MS);
    }

    #[test]
    fn one_attempt_waits_a_sixth() {
        assert_eq!(Lease::fixed(50 * MS).unwrap().attempt_timeout(), 10 * MS);
        assert_eq!(Lease::fixed(3000 * MS).unwrap().attempt_timeout(), 500 * MS);
        assert_eq!(Lease::default().attempt_timeout(), 1000 * MS);
        let longest = Lease::fixed(Lease::MAX).unwrap();
        assert_eq!(longest.attempt_timeout(), 1000 * MS);
    }
}
