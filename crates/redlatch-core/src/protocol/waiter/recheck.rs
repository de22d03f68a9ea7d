//! When a waiter asks without a notification: the bounds of re-checks, pauses and turns.

use std::time::Duration;

use super::{Discipline, Subscription, Waiter};
use crate::protocol::{
    backoff::{Backoff, unit},
    time::Moment,
};

/// Longest time between two requests of a waiter with an active subscription, before jitter of ± 20
/// %.
pub(crate) const RECHECK: Duration = Duration::from_secs(2);

/// Longest time between two requests of a waiter without an active subscription.
pub(crate) const UNSUBSCRIBED_RECHECK: Duration = Duration::from_millis(250);

/// A first waiter of a local queue that is this much later than announced is not polled by its
/// task.
const OVERDUE: Duration = RECHECK;

/// As [`OVERDUE`], for the ordered queue. The server counts a client as dead if its first waiter is
/// silent for too long. A replaced first waiter keeps its slot on the server.
const QUEUED_OVERDUE: Duration = Duration::from_secs(1);

/// Delay of a request after the end of the holder's lease.
const AFTER_EXPIRY: Duration = Duration::from_millis(2);

/// The smallest delay that counts as late.
const INSTANT: Duration = Duration::from_millis(1);

/// Pauses between requests without a clear answer.
pub(super) const RETRY: Backoff =
    Backoff::exponential(Duration::from_millis(10), Duration::from_millis(500));

impl Waiter {
    /// Returns the time of the next request without a notification. The holder's lease ends
    /// `remaining` after the last answer.
    pub(super) fn next_recheck(&self, remaining: Duration, now: Moment, random: u64) -> Moment {
        let expiry = remaining.saturating_add(AFTER_EXPIRY);
        match self.subscription {
            Subscription::Active => {
                let recheck = RECHECK.mul_f64(0.8 + 0.4 * unit(random));
                // Another waiter of this client may have asked last, so that the answer is old.
                (self.heard + recheck.min(expiry)).max(now)
            }
            Subscription::Inactive => now + UNSUBSCRIBED_RECHECK.min(expiry),
        }
    }

    /// Returns how long a waiter that polls pauses before its next request.
    pub(super) fn next_poll(&mut self, backoff: Backoff, random: u64) -> Duration {
        self.polls = self.polls.saturating_add(1);
        let delay = backoff.delay(self.polls, random);
        match self.plan.discipline {
            Discipline::Barging => delay,
            // The server counts a queued waiter with a longer silence as dead.
            Discipline::Queued => delay.min(RECHECK),
        }
    }

    /// Returns when a waiter in line checks whether the first waiter is overdue, and how late that
    /// waiter may be. It has announced its next check for `first_back_at`.
    pub(super) fn next_look_at_first(
        &self,
        first_back_at: Option<Moment>,
        now: Moment,
    ) -> (Moment, Duration) {
        let overdue = match self.plan.discipline {
            Discipline::Barging => OVERDUE,
            Discipline::Queued => QUEUED_OVERDUE,
        };
        let late = first_back_at.map(|back_at| back_at + overdue + INSTANT);
        let late = late.filter(|&late| late > now);
        (late.unwrap_or(now + overdue).min(now + OVERDUE), overdue)
    }
}

/// The maximum number of re-checks that a client sends per second, that of requests for lost
/// places, and that of withdrawals.
pub(crate) const RECHECKS_PER_SECOND: u32 = 1000;

/// The limits of a client's requests without a notification.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Of re-checks, each of which may be the only way on for its name.
    pub(crate) rechecks: RateLimiter,
    /// Of requests for a lost place. Very many waiters may have lost theirs at the same time, and
    /// must not delay the re-checks of other names.
    pub(crate) requeues: RateLimiter,
}

impl Limits {
    /// Creates limits of `per_second` requests of each sort.
    pub(crate) fn new(per_second: u32) -> Self {
        let limiter = RateLimiter::new(per_second);
        Self {
            rechecks: limiter.clone(),
            requeues: limiter,
        }
    }
}

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
