//! The waits of an acquisition: for its turn, for messages, and for the clock.

use std::{future::pending, time::Duration};

use futures_util::FutureExt;
use tokio::select;

use super::Run;
use crate::{
    Error,
    base::timeouts,
    engine::QueueSlot,
    net::{Listener, MessageFilter},
    protocol::{
        grant::Notice,
        time::Moment,
        waiter::{Discipline, Listen, QueueView},
    },
};

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
    pub(super) async fn wait(&mut self, until: Moment, listen: Listen) -> Result<(), Error> {
        self.expect(until);
        if listen == Listen::Everyone {
            let wakes = &self.attempt.called_by.wakes;
            self.subscriptions.everyone.get_or_insert_with(|| {
                let filter = MessageFilter::Exact(self.primitive.key().to_shared());
                Box::new(wakes.listen(filter))
            });
        }
        self.clock_ends_wait(until).await?;
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
        self.attempt.called_by.wakes.pin();
        self.open_subscriptions();
        let ready = self.subscriptions.ready(deadline).await;
        self.client.subscribed(&mut self.waiter, ready, now);
    }

    /// Waits for a message, a change of the local queue, or `until`. Reports the event to the
    /// waiter. Returns whether it was the clock.
    async fn clock_ends_wait(&mut self, until: Moment) -> Result<bool, Error> {
        let queue_changed = async {
            match &self.queue_slot {
                Some(queue_slot) => queue_slot.changed().await,
                None => pending().await,
            }
        };
        select! {
            biased;
            told = self.subscriptions.heard() => if told {
                self.waiter.on_notified();
            } else {
                // Messages may have been lost.
                self.waiter.on_elapsed();
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
                return Ok(true);
            }
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
        let (primitive, attempt) = (self.primitive.as_ref(), &self.attempt);
        let hub = &self.client.net().hub;
        if let Some(channel) = primitive.channel() {
            self.subscriptions
                .broadcast
                .get_or_insert_with(|| Box::new(hub.listen(&channel, MessageFilter::Any)));
        }
        self.subscriptions.own.get_or_insert_with(|| {
            let key = primitive.key();
            let filter = match primitive.discipline() {
                Discipline::Barging => key.to_shared(),
                Discipline::Queued => format!("{key} {}", attempt.id.number()).into(),
            };
            let wakes = &attempt.called_by.wakes;
            Box::new(wakes.listen(MessageFilter::Exact(filter)))
        });
    }

    /// Ends the subscription of an attempt that was given up, if messages name the attempt.
    pub(super) fn forget_subscription(&mut self) {
        if self.primitive.discipline() == Discipline::Queued {
            self.subscriptions.own = None;
        }
    }

    /// Tells the local queue the latest time at which this waiter asks again.
    pub(super) fn expect(&self, back_at: Moment) {
        if let Some(queue_slot) = &self.queue_slot {
            queue_slot.expect(back_at);
        }
    }
}

/// The listeners of one acquisition. Most acquisitions have none, so each is boxed.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// Messages that the name is free, or that notify this waiter.
    own: Option<Box<Listener>>,
    /// Messages on the object's own channel, to all waiters of this side of it.
    broadcast: Option<Box<Listener>>,
    /// Messages to any waiter of this client for the name. The first waiter handles them for all.
    everyone: Option<Box<Listener>>,
}

impl Subscriptions {
    /// Tells whether it is subscribed to the messages that notify the attempt.
    pub(super) const fn are_open(&self) -> bool {
        self.own.is_some()
    }

    /// Waits until messages reach this client. Returns `false` if they do not by `deadline`.
    pub(super) async fn ready(&self, deadline: Moment) -> bool {
        for listener in [&self.own, &self.broadcast].into_iter().flatten() {
            if !listener.ready(deadline).await {
                return false;
            }
        }
        true
    }

    /// Takes the message about a grant for this attempt, if one came.
    pub(super) fn take_grant(&self) -> Option<Notice> {
        self.own.as_ref()?.take_grant()
    }

    /// Waits for the next message. Returns `false` if no message came but some may have been
    /// missed. Never resolves without listeners.
    pub(super) async fn heard(&self) -> bool {
        let told = select! {
            biased;
            told = woken(self.own.as_deref()) => told,
            told = woken(self.broadcast.as_deref()) => told,
            told = woken(self.everyone.as_deref()) => told,
        };
        // All listeners report the same gap, so clear it in each of them.
        let listeners = [&self.own, &self.broadcast, &self.everyone]
            .into_iter()
            .flatten();
        listeners
            .filter_map(|listener| listener.woken().now_or_never())
            .fold(told, |told, also| told || also)
    }
}

async fn woken(listener: Option<&Listener>) -> bool {
    match listener {
        Some(listener) => listener.woken().await,
        None => pending().await,
    }
}
