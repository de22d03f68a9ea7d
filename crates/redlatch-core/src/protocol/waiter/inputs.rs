//! What happens to a waiter, and what that changes.

use std::time::Duration;

use super::{
    Admission, Busy, Cause, Discipline, Granted, Phase, Prompt, Registration, Restart, ServerSlot,
    State, Subscription, Waiter,
};
use crate::protocol::time::Moment;

impl Waiter {
    /// A message says that it may have its turn at the server.
    pub(crate) const fn on_notified(&mut self) {
        if let State::InLine(_) | State::Active(_) = self.state {
            self.cause = Cause::Notified;
            self.state = State::Active(Phase::Asking);
        }
    }

    /// Its place in the local queue has changed.
    pub(crate) const fn on_queue_changed(&mut self) {
        // One in line looks at the queue.
        if let State::Active(_) = self.state {
            self.on_notified();
        }
    }

    /// Another waiter of its local queue has told it something.
    pub(crate) fn on_prompt(&mut self, prompt: Prompt) {
        self.prompt = self.prompt.max(Some(prompt));
    }

    /// The time of a wait or pause is over. Re-checks keep to the client's rate limit.
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

    /// Messages may have been missed. Of a local queue, the first waiter asks for all.
    pub(crate) const fn on_gap(&mut self) {
        self.on_elapsed();
    }

    /// Messages reach us from now on. What was missed before is found by asking again.
    pub(crate) const fn on_subscribed(&mut self) {
        self.subscription = Subscription::Active;
        self.state = State::Active(Phase::Asking);
    }

    /// Messages cannot reach us: ask by the clock until they do.
    pub(crate) const fn on_unsubscribed(&mut self) {
        self.subscription = Subscription::Inactive;
        self.state = State::Active(Phase::Waiting {
            remaining: Duration::MAX,
        });
    }

    /// This is how the subscription stands after a wait in line, or with another channel.
    pub(crate) const fn on_subscription(&mut self, subscription: Subscription) {
        self.subscription = subscription;
    }

    /// Its owner does not hold the object any more.
    pub(crate) fn on_hold_ended(&mut self) {
        if self.slot == ServerSlot::Reentrant {
            self.slot = ServerSlot::Absent;
        }
    }

    /// Another holds the object, or comes first. Returns what to tell all others of the local
    /// queue.
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
        // What has lost its slot has probably lost those of the others.
        lost_slot.then_some(Prompt::Requeue)
    }

    /// It was granted. Returns what to tell all others of the local queue.
    pub(crate) fn on_granted(&mut self, granted: Granted) -> Option<Prompt> {
        self.state = State::Done;
        let lost_slot = granted.unqueued && !granted.has_copies && self.has_slot();
        // The message that lets all in may have been lost.
        let unnoticed = self.plan.admission == Admission::Together && self.cause == Cause::Recheck;
        let requeue = lost_slot.then_some(Prompt::Requeue);
        requeue.max(unnoticed.then_some(Prompt::Retry))
    }

    /// It was granted, and the reply took so long that the lease may have ended.
    pub(crate) const fn on_grant_expired(&mut self) {
        self.state = State::GivenUp(Restart::GrantExpired);
    }

    /// The server says that the attempt has been undone.
    pub(crate) const fn on_void(&mut self) {
        self.state = State::GivenUp(Restart::AttemptVoid);
    }

    /// The request came too late to act. The server's time is known afresh.
    pub(crate) const fn on_late(&mut self, now: Moment) {
        self.lates += 1;
        if self.lates > 1 {
            self.on_failed();
        } else {
            self.heard = now;
            self.state = State::Active(Phase::Asking);
        }
    }

    /// The server had too much to tidy up to answer: ask again at once.
    pub(crate) const fn on_unfinished(&mut self, now: Moment) {
        self.answered(now);
        self.state = State::Active(Phase::Asking);
    }

    /// There was no clear answer: not sent, not executed for the moment, or outcome unknown.
    pub(crate) const fn on_failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Active(Phase::Failed);
    }
}
