//! A limit on the rate of a client's re-checks.

use std::time::Duration;

use super::time::Moment;

/// The maximum number of re-checks that a client sends per second, and that of withdrawals.
pub(crate) const RECHECKS_PER_SECOND: u32 = 1000;

/// Spreads re-checks so that no more than a given number per second are sent.
///
/// Source: the "virtual scheduling" form of the generic cell rate algorithm (ITU-T I.371).
#[derive(Clone, Debug)]
pub(crate) struct RateLimiter {
    gap: Duration,
    free_at: Moment,
}

impl RateLimiter {
    /// Creates a limiter for `per_second` re-checks per second, evenly spread.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            gap: Duration::from_secs(1) / per_second.max(1),
            free_at: Moment::ORIGIN,
        }
    }

    /// Returns how far the reservations extend beyond `now`.
    pub(crate) fn backlog(&self, now: Moment) -> Duration {
        self.free_at.since(now)
    }

    /// Reserves the next slot. Returns its time, which is `now` if no reservation is pending.
    pub(crate) fn book(&mut self, now: Moment) -> Moment {
        let at = self.free_at.max(now);
        self.free_at = at + self.gap;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_pass_and_many_are_spread() {
        let now = Moment::from_origin(Duration::from_secs(10));
        let mut limiter = RateLimiter::new(1000);
        assert_eq!(limiter.book(now), now);
        for _ in 1..10_000 {
            limiter.book(now);
        }
        assert_eq!(limiter.backlog(now), Duration::from_secs(10));
        assert_eq!(limiter.book(now), now + Duration::from_secs(10));
        let later = now + Duration::from_secs(60);
        assert_eq!(limiter.book(later), later);
    }
}
