//! The waits of an acquisition: for its turn, for messages, and for the clock.

use std::{sync::Arc, time::Duration};

use super::Run;
use crate::{
    Error,
    base::timeouts,
    protocol::{time::Moment, waiter::QueueView},
};

impl Run<'_> {
    /// Returns the state of the local queue. Passes a prompt of another waiter on to this waiter,
    /// and forgets earlier changes of the queue.
    pub(super) fn look_at_queue(&mut self) -> QueueView {
        if self.waiter.is_reentrant() && !self.holds() {
            self.waiter.on_hold_ended();
        }
        let Some(queue_slot) = &self.queue_slot else {
            return QueueView::NONE;
        };
        // A change after this line may be missing in the view below, but it rings again.
        let prompt = self.bell.take(|news| {
            news.moved = false;
            news.prompt.take()
        });
        if let Some(prompt) = prompt {
            self.waiter.on_prompt(prompt);
        }
        queue_slot.look()
    }

    /// Waits behind other waiters of the local queue. At `until`, moves the first of them to the
    /// end if it is `overdue` past its announced time.
    pub(super) async fn await_turn(
        &mut self,
        until: Moment,
        overdue: Duration,
    ) -> Result<(), Error> {
        if self.clock_ends_wait(until).await? {
            if let Some(queue_slot) = &self.queue_slot {
                queue_slot.challenge(self.client.now(), overdue);
            }
            self.claim_reentrance();
        }
        self.waiter.on_subscription(self.attempt.subscription());
        Ok(())
    }

    /// Waits for a message or a change of the local queue, until `until` at the latest.
    pub(super) async fn wait(&mut self, until: Moment) -> Result<(), Error> {
        self.expect(until);
        self.clock_ends_wait(until).await?;
        Ok(())
    }

    /// Waits until `until` and ignores all messages.
    pub(super) async fn pause(&mut self, until: Moment) -> Result<(), Error> {
        self.expect(until);
        let nothing = std::future::pending::<()>();
        self.client.net().world.until(until, nothing).await;
        self.client.check_process()?;
        self.waiter.on_elapsed();
        Ok(())
    }

    /// Waits until this client receives messages.
    pub(super) async fn subscribe(&mut self) {
        let now = self.client.now();
        let deadline = self.waiter.plan().bound(now + timeouts::SUBSCRIPTION);
        self.expect(deadline);
        self.open_subscriptions();
        let ready = self.attempt.ready(deadline).await;
        self.client.subscribed(&mut self.waiter, ready, now);
    }

    /// Waits for a message, a change of the local queue, or `until`. Reports the event to the
    /// waiter. Returns whether it was the clock.
    async fn clock_ends_wait(&mut self, until: Moment) -> Result<bool, Error> {
        let world = &self.client.net().world;
        let Some(news) = world.until(until, self.bell.news()).await else {
            self.client.check_process()?;
            self.waiter.on_elapsed();
            return Ok(true);
        };
        if news.message.is_some() {
            self.waiter.on_notified();
        } else if news.missed {
            self.waiter.on_elapsed();
        } else if news.prompt.is_none() {
            self.waiter.on_queue_changed();
        }
        if let Some(prompt) = news.prompt {
            self.waiter.on_prompt(prompt);
        }
        Ok(false)
    }

    /// Lets this waiter ask out of turn if its owner already holds the name.
    pub(super) fn claim_reentrance(&self) {
        if self.queue_slot.is_some() && self.holds() {
            let key = self.primitive.key();
            let local_queues = self.client.local_queues();
            local_queues.owner_holds(key, self.asked.owner.number(), None);
        }
    }

    /// Tells whether this acquisition's owner holds the object.
    pub(super) fn holds(&self) -> bool {
        let (key, now) = (self.primitive.key(), self.client.now());
        self.client.holds().held(key, &self.asked.owner, now)
    }

    /// Subscribes to the messages that notify the attempt, unless it is subscribed already.
    pub(super) fn open_subscriptions(&mut self) {
        if self.listens {
            return;
        }
        self.attempt.called_by.wakes.pin();
        if let Some(queue_slot) = &self.queue_slot {
            queue_slot.listen(self.primitive.discipline());
        }
        if let Some(channel) = self.primitive.channel() {
            let hub = &self.client.net().hub;
            self.broadcast
                .get_or_insert_with(|| Box::new(hub.listen(&channel, Arc::clone(&self.bell))));
        }
        self.listens = true;
    }

    /// Tells the local queue the latest time at which this waiter asks again.
    pub(super) fn expect(&self, back_at: Moment) {
        if let Some(queue_slot) = &self.queue_slot {
            queue_slot.expect(back_at);
        }
    }
}
