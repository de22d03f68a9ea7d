//! One acquisition, from its first request to its end.

use std::time::Duration;

pub use super::waiter::{Discipline, WaitStrategy};
use super::{
    backoff::{Backoff, unit},
    rate_limiter::RateLimiter,
    time::Moment,
};

/// What the caller wants of an acquisition.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// When the caller stops waiting; `None` for never.
    pub deadline: Option<Moment>,
    /// Whether the first clear answer ends it.
    pub once: bool,
    /// How to wait.
    pub strategy: WaitStrategy,
    /// How waiters are served.
    pub discipline: Discipline,
    /// How long to go on without any answer from the server.
    pub patience: Duration,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the attempt, same id as before, and register for a wake if it is told to.
    Send {
        /// Whether a busy answer shall register this waiter.
        register: bool,
    },
    /// Make sure that wakes reach us, then tell `on_subscribed` or `on_deaf`.
    Subscribe,
    /// Wait for a wake, until `until` at the latest.
    Wait {
        /// When to look again without a wake.
        until: Moment,
    },
    /// Wait until `until`, whatever wakes come.
    Pause {
        /// When to go on.
        until: Moment,
    },
    /// Stop.
    End(End),
}

/// Why an acquisition ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is held by another, and the caller does not wait (any longer).
    Busy,
    /// The server did not answer in the caller's time, or not for as long as the client is patient.
    Unanswered,
}

/// The decisions of one acquisition: try; subscribe; try again; wait for a wake, the holder's remaining time or a bounded
/// re-check; try.
///
/// Inputs: `on_…` for what happened. Output: [`step`](Self::step). Order of use: call `step` and do what it says, tell the result by exactly one `on_…`
/// (`Send`: busy, late or failed, unless it was granted; `Subscribe`: subscribed or deaf; `Wait` and `Pause`: woken or elapsed), and
/// call `step` again.
#[derive(Debug)]
pub struct Acquisition {
    plan: Plan,
    phase: Phase,
    /// Whether wakes reach us.
    listening: bool,
    /// When the server last gave a clear answer.
    heard: Moment,
    failures: u32,
    polls: u32,
    lates: u32,
    /// Whether any request has been sent.
    tried: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Try,
    Subscribe,
    /// Busy; wakes reach us if `listening`.
    Busy {
        remaining: Duration,
    },
    /// The time of a wait is over: a re-check is due, when its place comes.
    Due,
    /// Its place is booked, for then.
    Booked {
        at: Moment,
    },
    /// No clear answer.
    Failed,
    Done,
}

impl Acquisition {
    /// Starts at `now`. `listening`: wakes reach this client already, so the first try may register.
    pub const fn new(plan: Plan, now: Moment, listening: bool) -> Self {
        Self {
            plan,
            phase: Phase::Try,
            listening,
            heard: now,
            failures: 0,
            polls: 0,
            lates: 0,
            tried: false,
        }
    }

    /// Returns what to do at `now`. Re-checks book their place in `limiter`.
    pub fn step(&mut self, now: Moment, random: u64, limiter: &mut RateLimiter) -> Step {
        match self.phase {
            Phase::Try if self.tried && self.over(now) => Step::End(if self.failures > 0 {
                End::Unanswered
            } else {
                End::Busy
            }),
            Phase::Try => {
                self.tried = true;
                Step::Send {
                    register: self.registers(),
                }
            }
            Phase::Subscribe if self.over(now) => Step::End(End::Busy),
            Phase::Subscribe => Step::Subscribe,
            Phase::Busy { .. } if self.plan.once || self.over(now) || self.has_polled_enough() => {
                Step::End(End::Busy)
            }
            Phase::Busy { remaining } => self.wait(remaining, now, random),
            Phase::Due => {
                let at = limiter.book(now);
                if at > now && !self.over(now) {
                    self.phase = Phase::Booked { at };
                    return Step::Wait {
                        until: self.until_deadline(at),
                    };
                }
                self.phase = Phase::Try;
                self.step(now, random, limiter)
            }
            Phase::Failed if self.over(now) || now.since(self.heard) >= self.plan.patience => {
                Step::End(End::Unanswered)
            }
            Phase::Failed => {
                let until = now + RETRY.delay(self.failures, random);
                Step::Pause {
                    until: self.until_deadline(until),
                }
            }
            // Something that concerns others of this client came up meanwhile.
            Phase::Booked { at } if !self.over(now) => Step::Wait {
                until: self.until_deadline(at),
            },
            Phase::Booked { .. } | Phase::Done => Step::End(End::Busy),
        }
    }

    /// Tells whether its last answer was that it has to wait, and nothing has happened since.
    pub const fn is_busy(&self) -> bool {
        matches!(
            self.phase,
            Phase::Busy { .. } | Phase::Due | Phase::Booked { .. }
        )
    }

    /// The name is held by another for `remaining`. `listening`: wakes would still reach us.
    pub fn on_busy(&mut self, now: Moment, remaining: Duration, listening: bool) {
        let heard_of = self.registers() && self.listening;
        self.answered(now);
        self.listening = listening;
        let subscribe = !heard_of && !self.plan.once && self.plan.strategy == WaitStrategy::Notify;
        self.phase = if subscribe {
            Phase::Subscribe
        } else {
            Phase::Busy { remaining }
        };
    }

    /// Wakes reach us from now on: what was missed before is found by trying again before waiting.
    pub const fn on_subscribed(&mut self) {
        self.listening = true;
        self.phase = Phase::Try;
    }

    /// Wakes cannot reach us: look again by the clock until they do.
    pub const fn on_deaf(&mut self) {
        self.listening = false;
        self.phase = Phase::Busy {
            remaining: Duration::MAX,
        };
    }

    /// A wake came: try at once.
    pub const fn on_woken(&mut self) {
        self.phase = Phase::Try;
    }

    /// The time of a wait or pause is over, or a wake may have been missed. Re-checks keep to the client's rate limit.
    pub const fn on_elapsed(&mut self) {
        self.phase = match self.phase {
            Phase::Busy { .. } => Phase::Due,
            _ => Phase::Try,
        };
    }

    /// It is to look soon, without waiting for a wake. Keeps to the client's rate limit, and to a place that is booked.
    pub const fn on_due(&mut self) {
        if let Phase::Busy { .. } = self.phase {
            self.phase = Phase::Due;
        }
    }

    /// The request came too late to act; the server's time is known afresh.
    pub fn on_late(&mut self, now: Moment) {
        self.lates += 1;
        self.phase = if self.lates > 1 {
            Phase::Failed
        } else {
            Phase::Try
        };
        if self.lates > 1 {
            self.failures += 1;
        } else {
            self.heard = now;
        }
    }

    /// Its turn has come after others of this client spoke: the server was last heard at `heard`.
    pub fn on_turn(&mut self, heard: Moment, listening: bool) {
        self.heard = self.heard.max(heard);
        self.listening = listening;
    }

    /// The server had too much to tidy up to answer: ask again at once.
    pub const fn on_unfinished(&mut self, now: Moment) {
        self.answered(now);
        self.phase = Phase::Try;
    }

    /// There was no clear answer: not sent, not executed for the moment, or outcome unknown.
    pub const fn on_failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Failed;
    }

    /// It was granted: nothing is left to do.
    pub const fn on_granted(&mut self) {
        self.phase = Phase::Done;
    }

    /// Returns when one request sent at `now` must be answered, `timeout` being its own limit.
    pub fn attempt_deadline(&self, now: Moment, timeout: Duration) -> Moment {
        self.until_deadline(now + timeout)
    }

    /// Returns when to stop waiting for the answer to a request sent at `now`: when patience ends, not before `silence` has passed.
    pub fn patience_deadline(&self, now: Moment, silence: Duration) -> Moment {
        self.until_deadline((self.heard + self.plan.patience).max(now + silence))
    }

    fn wait(&mut self, remaining: Duration, now: Moment, random: u64) -> Step {
        let until = match self.plan.strategy {
            WaitStrategy::Poll(backoff) => {
                self.polls = self.polls.saturating_add(1);
                let delay = backoff.delay(self.polls, random);
                let delay = match self.plan.discipline {
                    Discipline::Barging => delay,
                    // Who is silent for longer counts as dead.
                    Discipline::Queued => delay.min(RECHECK),
                };
                return Step::Pause {
                    until: self.until_deadline(now + delay),
                };
            }
            WaitStrategy::Notify if self.listening => {
                let check = RECHECK.mul_f64(0.8 + 0.4 * unit(random));
                // Somebody else of this client may have been the last to ask.
                (self.heard + check.min(remaining.saturating_add(AFTER_EXPIRY))).max(now)
            }
            WaitStrategy::Notify => now + DEAF_RECHECK.min(remaining.saturating_add(AFTER_EXPIRY)),
        };
        Step::Wait {
            until: self.until_deadline(until),
        }
    }

    fn has_polled_enough(&self) -> bool {
        match self.plan.strategy {
            WaitStrategy::Poll(backoff) => backoff.is_exhausted(self.polls.saturating_add(1)),
            WaitStrategy::Notify => false,
        }
    }

    fn registers(&self) -> bool {
        match self.plan.discipline {
            _ if self.plan.once => false,
            Discipline::Queued => true,
            Discipline::Barging => self.listening && self.plan.strategy == WaitStrategy::Notify,
        }
    }

    const fn answered(&mut self, now: Moment) {
        self.heard = now;
        self.failures = 0;
        self.lates = 0;
    }

    fn over(&self, now: Moment) -> bool {
        self.plan.deadline.is_some_and(|deadline| now >= deadline)
    }

    fn until_deadline(&self, until: Moment) -> Moment {
        self.plan
            .deadline
            .map_or(until, |deadline| until.min(deadline))
    }
}

/// Longest time between two looks of a waiter that wakes reach, before jitter of ± 20 %.
pub const RECHECK: Duration = Duration::from_secs(2);

/// The same while wakes cannot reach it.
pub const DEAF_RECHECK: Duration = Duration::from_millis(250);

/// A waiter looks this long after the holder's lease should have ended.
const AFTER_EXPIRY: Duration = Duration::from_millis(2);

/// Between requests without a clear answer.
const RETRY: Backoff = Backoff::exponential(Duration::from_millis(10), Duration::from_millis(500));

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Moment {
        Moment::from_origin(Duration::from_millis(ms))
    }

    fn plan() -> Plan {
        Plan {
            deadline: None,
            once: false,
            strategy: WaitStrategy::Notify,
            discipline: Discipline::Barging,
            patience: 10_000 * MS,
        }
    }

    fn step(acquisition: &mut Acquisition, ms: u64) -> Step {
        acquisition.step(at(ms), 0, &mut RateLimiter::new(1000))
    }

    #[test]
    fn a_queued_waiter_takes_its_ticket_first_and_subscribes_then_l23() {
        let queued = Plan {
            discipline: Discipline::Queued,
            ..plan()
        };
        let mut it = Acquisition::new(queued, at(0), false);
        assert_eq!(step(&mut it, 0), Step::Send { register: true });
        it.on_busy(at(1), Duration::MAX, false);
        assert_eq!(step(&mut it, 1), Step::Subscribe);
        it.on_subscribed();
        assert_eq!(step(&mut it, 2), Step::Send { register: true });
        it.on_unfinished(at(3));
        assert_eq!(step(&mut it, 3), Step::Send { register: true });
        it.on_busy(at(4), Duration::MAX, true);
        assert_eq!(step(&mut it, 4), Step::Wait { until: at(1604) });
        it.on_turn(at(1000), true);
        assert_eq!(step(&mut it, 1100), Step::Wait { until: at(2600) });
    }

    #[test]
    fn after_subscribing_it_tries_again_before_it_waits() {
        let mut it = Acquisition::new(plan(), at(0), false);
        assert_eq!(step(&mut it, 0), Step::Send { register: false });
        it.on_busy(at(1), 30_000 * MS, false);
        assert_eq!(step(&mut it, 1), Step::Subscribe);
        it.on_subscribed();
        assert_eq!(step(&mut it, 2), Step::Send { register: true });
        it.on_busy(at(3), 30_000 * MS, true);
        assert_eq!(step(&mut it, 3), Step::Wait { until: at(1603) });
        it.on_woken();
        assert_eq!(step(&mut it, 4), Step::Send { register: true });
    }

    #[test]
    fn a_client_that_listens_registers_with_its_first_try() {
        let mut it = Acquisition::new(plan(), at(0), true);
        assert_eq!(step(&mut it, 0), Step::Send { register: true });
        it.on_busy(at(1), 100 * MS, true);
        assert_eq!(
            step(&mut it, 1),
            Step::Wait { until: at(103) },
            "the holder's time and 2 ms"
        );
    }

    #[test]
    fn a_booked_place_is_kept_through_an_interruption() {
        let mut limiter = RateLimiter::new(10);
        limiter.book(at(0));
        let mut it = Acquisition::new(plan(), at(0), true);
        it.step(at(0), 0, &mut limiter);
        it.on_busy(at(0), Duration::MAX, true);
        it.on_elapsed();
        assert_eq!(
            it.step(at(1), 0, &mut limiter),
            Step::Wait { until: at(100) }
        );
        assert_eq!(
            it.step(at(2), 0, &mut limiter),
            Step::Wait { until: at(100) }
        );
        it.on_elapsed();
        assert_eq!(
            it.step(at(100), 0, &mut limiter),
            Step::Send { register: true }
        );
    }

    #[test]
    fn deaf_it_looks_by_the_clock_and_tries_to_subscribe_again_l7() {
        let mut it = Acquisition::new(plan(), at(0), true);
        step(&mut it, 0);
        it.on_busy(at(1), 30_000 * MS, false);
        assert_eq!(step(&mut it, 1), Step::Wait { until: at(251) });
        it.on_woken();
        assert_eq!(step(&mut it, 251), Step::Send { register: false });
        it.on_busy(at(252), 30_000 * MS, false);
        assert_eq!(step(&mut it, 252), Step::Subscribe);
        it.on_deaf();
        assert_eq!(step(&mut it, 252), Step::Wait { until: at(502) });
    }

    #[test]
    fn a_caller_who_does_not_wait_gets_the_first_clear_answer() {
        let mut it = Acquisition::new(
            Plan {
                once: true,
                ..plan()
            },
            at(0),
            true,
        );
        assert_eq!(step(&mut it, 0), Step::Send { register: false });
        it.on_busy(at(1), 30_000 * MS, true);
        assert_eq!(step(&mut it, 1), Step::End(End::Busy));
    }

    #[test]
    fn the_deadline_bounds_and_failure_is_not_contention_l3_l4() {
        let plan = Plan {
            deadline: Some(at(200)),
            ..plan()
        };
        let mut it = Acquisition::new(plan, at(0), true);
        step(&mut it, 0);
        assert_eq!(it.attempt_deadline(at(0), 1000 * MS), at(200));
        it.on_busy(at(10), 30_000 * MS, true);
        assert_eq!(step(&mut it, 10), Step::Wait { until: at(200) });
        it.on_woken();
        step(&mut it, 200);
        it.on_busy(at(201), 30_000 * MS, true);
        assert_eq!(step(&mut it, 201), Step::End(End::Busy));

        let mut it = Acquisition::new(plan, at(0), true);
        step(&mut it, 0);
        it.on_failed();
        assert!(matches!(step(&mut it, 100), Step::Pause { .. }));
        it.on_woken();
        step(&mut it, 150);
        it.on_failed();
        assert_eq!(step(&mut it, 200), Step::End(End::Unanswered));
    }

    #[test]
    fn patience_ends_with_silence_and_starts_anew_with_an_answer() {
        let mut it = Acquisition::new(plan(), at(0), true);
        step(&mut it, 0);
        it.on_failed();
        assert_eq!(step(&mut it, 9_999), Step::Pause { until: at(10_004) });
        it.on_woken();
        step(&mut it, 9_999);
        it.on_busy(at(10_000), 30_000 * MS, true);
        it.on_woken();
        step(&mut it, 11_000);
        it.on_failed();
        assert!(matches!(step(&mut it, 19_999), Step::Pause { .. }));
        assert_eq!(step(&mut it, 20_000), Step::End(End::Unanswered));
    }

    #[test]
    fn what_is_due_keeps_to_the_pace_and_to_its_place() {
        let mut limiter = RateLimiter::new(10);
        limiter.book(at(0));
        let mut it = Acquisition::new(plan(), at(0), true);
        step(&mut it, 0);
        it.on_due();
        assert_eq!(
            it.step(at(0), 0, &mut limiter),
            Step::Send { register: true }
        );
        it.on_busy(at(0), 30_000 * MS, true);
        it.on_due();
        assert_eq!(
            it.step(at(1), 0, &mut limiter),
            Step::Wait { until: at(100) }
        );
        it.on_due();
        assert_eq!(
            it.step(at(2), 0, &mut limiter),
            Step::Wait { until: at(100) }
        );
        it.on_elapsed();
        assert_eq!(
            it.step(at(100), 0, &mut limiter),
            Step::Send { register: true }
        );
    }

    #[test]
    fn polling_never_subscribes_or_registers() {
        let backoff = Backoff::exponential(10 * MS, 100 * MS);
        let plan = Plan {
            strategy: WaitStrategy::Poll(backoff),
            ..plan()
        };
        let mut it = Acquisition::new(plan, at(0), true);
        assert_eq!(step(&mut it, 0), Step::Send { register: false });
        it.on_busy(at(0), 30_000 * MS, true);
        assert_eq!(step(&mut it, 0), Step::Pause { until: at(5) });
        it.on_woken();
        it.on_busy(at(5), 30_000 * MS, true);
        assert_eq!(step(&mut it, 5), Step::Pause { until: at(15) });
    }

    #[test]
    fn polling_ends_after_its_attempts() {
        let backoff = Backoff::constant(10 * MS).max_attempts(2);
        let plan = Plan {
            strategy: WaitStrategy::Poll(backoff),
            ..plan()
        };
        let mut it = Acquisition::new(plan, at(0), true);
        assert_eq!(step(&mut it, 0), Step::Send { register: false });
        it.on_busy(at(0), 30_000 * MS, true);
        assert_eq!(step(&mut it, 0), Step::Pause { until: at(10) });
        it.on_elapsed();
        assert_eq!(step(&mut it, 10), Step::Send { register: false });
        it.on_busy(at(11), 30_000 * MS, true);
        assert_eq!(step(&mut it, 11), Step::End(End::Busy));
    }

    #[test]
    fn a_request_too_late_is_sent_again_at_once_and_then_with_pauses() {
        let mut it = Acquisition::new(plan(), at(0), true);
        step(&mut it, 0);
        it.on_late(at(1));
        assert_eq!(step(&mut it, 1), Step::Send { register: true });
        it.on_late(at(2));
        assert!(matches!(step(&mut it, 2), Step::Pause { .. }));
    }
}
