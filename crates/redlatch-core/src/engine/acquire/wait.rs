//! The waits of an acquisition: for its turn, for messages, and for the clock.

use std::time::Duration;

use tokio::select;

use super::Run;
use crate::{
    Error,
    base::{rules::Rule, timeouts},
    engine::QueueSlot,
    protocol::{
        time::Moment,
        waiter::{Busy, Listen, QueueView, Subscription},
    },
};

/// The event that ended a wait.
#[derive(PartialEq, Eq)]
enum WokenBy {
    /// A message, or the local queue.
    Event,
    /// The clock.
    Clock,
}

impl Run<'_> {
    /// Returns the state of the local queue. Passes a prompt of another waiter on to this waiter.
    pub(super) fn look_at_queue(&mut self) -> QueueView {
        if self.waiter.is_reentrant() && !self.holds() {
            self.waiter.on_hold_ended();
        }
        let Some(queue_slot) = &self.queue_slot else {
            return QueueView::NONE;
        };
        let (view, prompt) = queue_slot.look();
        if let Some(prompt) = prompt {
            self.waiter.on_prompt(prompt);
        }
        view
    }

    /// Waits behind other waiters of the local queue. At `until`, moves the first of them to the
    /// end if it is `overdue` past its announced time.
    pub(super) async fn await_turn(
        &mut self,
        until: Moment,
        overdue: Duration,
    ) -> Result<(), Error> {
        if self.woken(until).await? == WokenBy::Clock {
            if let Some(queue_slot) = &self.queue_slot {
                queue_slot.challenge(self.client.now(), overdue);
            }
            self.claim_reentrance();
        }
        self.waiter.on_subscription(self.subscription());
        Ok(())
    }

    /// Waits for a message or a change of the local queue, until `until` at the latest.
    pub(super) async fn wait(&mut self, until: Moment, listen: Listen) -> Result<(), Error> {
        let until = if self.client.keeps(Rule::LookAgain) {
            until
        } else {
            self.waiter.plan().bound(Moment::FAR_FUTURE)
        };
        self.expect(until);
        if listen == Listen::Everyone {
            let primitive = self.primitive.as_ref();
            self.subscriptions
                .open_for_everyone(primitive, self.attempt.wakes());
        }
        self.woken(until).await?;
        Ok(())
    }

    /// Waits until `until` and ignores all messages.
    pub(super) async fn pause(&mut self, until: Moment) -> Result<(), Error> {
        self.expect(until);
        select! {
            biased;
            () = self.client.forked() => self.client.check_process()?,
            () = self.client.alarm(until) => {}
        }
        self.waiter.on_elapsed();
        Ok(())
    }

    /// Waits until this client receives messages.
    pub(super) async fn subscribe(&mut self) {
        let now = self.client.now();
        let deadline = self.waiter.plan().bound(now + timeouts::SUBSCRIPTION);
        self.expect(deadline);
        self.attempt.wakes().pin();
        self.open_subscriptions();
        if self.subscriptions.ready(deadline).await {
            self.waiter.on_subscribed();
            if !self.client.keeps(Rule::TryAfterSubscribing) {
                let busy = Busy {
                    remaining: Duration::MAX,
                    subscription: Subscription::Active,
                    ..Busy::default()
                };
                self.waiter.on_busy(now, busy);
            }
        } else {
            self.waiter.on_unsubscribed();
        }
    }

    /// Waits for a message, a change of the local queue, or `until`. Reports the event
    /// to the waiter.
    async fn woken(&mut self, until: Moment) -> Result<WokenBy, Error> {
        let queue_changed = async {
            match &self.queue_slot {
                Some(queue_slot) => queue_slot.changed().await,
                None => std::future::pending().await,
            }
        };
        select! {
            biased;
            told = self.subscriptions.heard() => if told {
                self.waiter.on_notified();
            } else {
                self.waiter.on_gap();
            },
            () = queue_changed => match self.queue_slot.as_ref().and_then(QueueSlot::take_prompt) {
                Some(prompt) => self.waiter.on_prompt(prompt),
                None => self.waiter.on_queue_changed(),
            },
            () = self.client.forked() => {
                self.client.check_process()?;
                self.waiter.on_elapsed();
            }
            () = self.client.alarm(until) => {
                self.waiter.on_elapsed();
                return Ok(WokenBy::Clock);
            }
        }
        Ok(WokenBy::Event)
    }

    /// Lets this waiter ask out of turn if its owner already holds the name.
    pub(super) fn claim_reentrance(&self) {
        if self.queue_slot.is_some() && self.holds() {
            let key = self.primitive.key();
            let local_queues = self.client.local_queues();
            local_queues.owner_holds(key, self.owner.number(), None);
        }
    }

    /// Tells whether this acquisition's owner holds the object.
    pub(super) fn holds(&self) -> bool {
        let (key, now) = (self.primitive.key(), self.client.now());
        self.client.holds().held(key, &self.owner, now)
    }

    pub(super) fn open_subscriptions(&mut self) {
        let (primitive, attempt) = (self.primitive.as_ref(), &self.attempt);
        self.subscriptions
            .open(self.client, primitive, attempt.id(), attempt.wakes());
    }

    /// Tells the local queue the latest time at which this waiter asks again.
    pub(super) fn expect(&self, back_at: Moment) {
        if let Some(queue_slot) = &self.queue_slot {
            queue_slot.expect(back_at);
        }
    }
}
