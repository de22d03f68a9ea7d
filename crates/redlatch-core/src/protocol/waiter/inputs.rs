//! The inputs of a waiter, and the transition that each of them causes.

use std::time::Duration;

use super::{
    Admission, Busy, Cause, Discipline, Granted, Phase, Prompt, Registration, Restart, ServerSlot,
    State, Subscription, VOIDS_AT_ONCE, Waiter,
};
use crate::protocol::time::Moment;

impl Waiter {
    /// Records a message of the server that says that the waiter may try. A waiter in line asks
    /// once, since the first waiter may poll and hear no messages.
    pub(crate) fn on_notified(&mut self) {
        match self.state {
            State::InLine(_) => self.on_prompt(Prompt::Retry),
            State::Active(_) => {
                self.cause = Cause::Notified;
                self.state = State::Active(Phase::Asking);
            }
            State::GivenUp(_) | State::Done => {}
        }
    }

    /// Records a change of the waiter's place in the local queue.
    pub(crate) fn on_queue_changed(&mut self) {
        // A waiter in line reads the queue itself, in `step`.
        if let State::Active(_) = self.state {
            self.on_notified();
        }
    }

    /// Records a prompt of another waiter of the local queue. The stronger of two pending prompts
    /// stays.
    pub(crate) fn on_prompt(&mut self, prompt: Prompt) {
        self.prompt = self.prompt.max(Some(prompt));
    }

    /// Records the end of a wait or a pause. A re-check keeps to the client's rate limit.
    pub(crate) const fn on_elapsed(&mut self) {
        let State::Active(phase) = self.state else {
            return;
        };
        if let Cause::Notified = self.cause {
            self.cause = Cause::Recheck;
        }
        self.state = State::Active(match phase {
            Phase::Waiting { .. } => Phase::RecheckDue,
            _ => Phase::Asking,
        });
    }

    /// Records that messages may have been lost. The first waiter of a local queue asks for all of
    /// them.
    pub(crate) const fn on_gap(&mut self) {
        self.on_elapsed();
    }

    /// Records that messages reach the client from now on. The next request finds any event that
    /// happened before.
    pub(crate) const fn on_subscribed(&mut self) {
        self.subscription = Subscription::Active;
        self.state = State::Active(Phase::Asking);
    }

    /// Records that messages cannot reach the client. The waiter asks by timer until they do.
    pub(crate) const fn on_unsubscribed(&mut self) {
        self.subscription = Subscription::Inactive;
        self.state = State::Active(Phase::Waiting {
            remaining: Duration::MAX,
        });
    }

    /// Sets the state of the subscription: after a wait in line, for another channel, or when the
    /// waiter begins to listen.
    pub(crate) const fn on_subscription(&mut self, subscription: Subscription) {
        self.subscription = subscription;
    }

    /// Records that the waiter's owner does not hold the object any more.
    pub(crate) fn on_hold_ended(&mut self) {
        if self.slot == ServerSlot::Reentrant {
            self.slot = ServerSlot::Absent;
        }
    }

    /// Records that another owner holds the object, or comes first. Returns the prompt for all
    /// other waiters of the local queue, if any.
    pub(crate) fn on_busy(&mut self, now: Moment, busy: Busy) -> Option<Prompt> {
        let registered = self.registration() != Registration::None;
        let would_hear = registered && self.subscription == Subscription::Active;
        let lost_slot = busy.entered && self.has_slot();
        self.answered(now);
        self.have_waited();
        self.subscription = busy.subscription;
        self.slot = match self.plan.discipline {
            Discipline::Queued if !busy.beside && busy.owner_holds => ServerSlot::Reentrant,
            Discipline::Queued if !busy.beside => ServerSlot::Queued,
            _ => ServerSlot::Absent,
        };
        let subscribes = self.plan.notifies() && !self.plan.takes_first_answer();
        self.state = State::Active(if subscribes && !would_hear {
            Phase::Subscribing
        } else {
            Phase::Waiting {
                remaining: busy.remaining,
            }
        });
        // If this waiter has lost its slot, the others have probably lost theirs.
        lost_slot.then_some(Prompt::Requeue)
    }

    /// Records a grant. Returns the prompt for all other waiters of the local queue, if any.
    pub(crate) fn on_granted(&mut self, granted: Granted) -> Option<Prompt> {
        self.state = State::Done;
        let lost_slot = granted.unqueued && !granted.has_copies && self.has_slot();
        // The grant came from a re-check, so the message that lets all waiters in may have been
        // lost.
        let unnoticed = self.plan.admission == Admission::Together && self.cause == Cause::Recheck;
        let requeue = lost_slot.then_some(Prompt::Requeue);
        requeue.max(unnoticed.then_some(Prompt::Retry))
    }

    /// Records a grant whose reply took so long that the lease may have ended.
    pub(crate) const fn on_grant_expired(&mut self) {
        self.state = State::GivenUp(Restart::GrantExpired);
    }

    /// Records the server's answer that it refuses the attempt. Returns the number of such answers
    /// in a row. Each of the first leads to a fresh attempt at once, since requests of several
    /// threads may overtake each other. A further one counts as a failure.
    pub(crate) const fn on_void(&mut self, now: Moment) -> u32 {
        self.voids += 1;
        if self.voids <= VOIDS_AT_ONCE {
            self.heard = now;
        }
        self.state = State::GivenUp(Restart::AttemptVoid);
        self.voids
    }

    /// Records that the request arrived too late to act. The caller has refreshed the server's
    /// time. The first such answer leads to another request at once, and a further one counts as a
    /// failure.
    pub(crate) const fn on_late(&mut self, now: Moment) {
        self.lates += 1;
        if self.lates > 1 {
            self.on_failed();
        } else {
            self.heard = now;
            self.state = State::Active(Phase::Asking);
        }
    }

    /// Records that the server had too many dead entries to remove for an answer. The waiter asks
    /// again at once.
    pub(crate) const fn on_unfinished(&mut self, now: Moment) {
        self.answered(now);
        self.state = State::Active(Phase::Asking);
    }

    /// Records the longest usual time of an answer.
    pub(crate) const fn on_usual(&mut self, usual: Duration) {
        self.usual = usual;
    }

    /// Records that a request which was begun at `begun` has no clear answer at `now`. Returns
    /// `true` if the end of the caller's time has cut it off before the server counts as silent.
    /// Then the waiter ends without a grant.
    pub(crate) fn on_cut_off(&mut self, begun: Moment, now: Moment) -> bool {
        // Without any answer, nothing says that the name is busy.
        let cut_off = self.answered
            && self.plan.is_over(now)
            && self.failures == 0
            && self.is_momentary(now - begun);
        if cut_off {
            self.have_waited();
            self.state = State::Active(Phase::Waiting {
                remaining: Duration::ZERO,
            });
        }
        cut_off
    }

    /// Returns whether an answer that takes `span` is no sign of a silent server.
    pub(crate) fn is_momentary(&self, span: Duration) -> bool {
        let slack = if self.answered {
            MOMENTARY
        } else {
            FIRST_MOMENTARY
        };
        span <= self.usual + slack
    }

    /// Records a request without a clear answer: not sent, not executed for the moment, or of
    /// unknown outcome.
    pub(crate) const fn on_failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Active(Phase::Failed);
    }
}

/// An answer that takes this much longer than usual is no sign of a silent server. A busy machine
/// pauses for as long.
const MOMENTARY: Duration = Duration::from_millis(100);

/// As [`MOMENTARY`], before the waiter knows of any answer. A caller with less time than this could
/// never tell a server that is silent from one that is far.
const FIRST_MOMENTARY: Duration = Duration::from_millis(20);
