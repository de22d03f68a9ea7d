//! The messages of the server that an acquisition subscribes to.

use futures_util::FutureExt;
use std::future::pending;
use tokio::select;

use crate::{
    Client,
    base::{owner::AttemptId, primitive::Primitive},
    net::{Listener, MessageFilter, Wakes},
    protocol::{grant::Notice, time::Moment, waiter::Discipline},
};

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
    /// Subscribes to the messages that notify `attempt`, unless it is subscribed already.
    pub(super) fn open(
        &mut self,
        client: &Client,
        primitive: &dyn Primitive,
        attempt: &AttemptId,
        wakes: &Wakes,
    ) {
        let (hub, key) = (&client.net().hub, primitive.key());
        if let Some(channel) = primitive.channel() {
            self.broadcast
                .get_or_insert_with(|| Box::new(hub.listen(&channel, MessageFilter::Any)));
        }
        self.own.get_or_insert_with(|| {
            let filter = match primitive.discipline() {
                Discipline::Barging => key.to_shared(),
                Discipline::Queued => format!("{key} {}", attempt.number()).into(),
            };
            Box::new(wakes.listen(MessageFilter::Exact(filter)))
        });
    }

    /// Subscribes on behalf of every waiter of this client.
    pub(super) fn open_for_everyone(&mut self, primitive: &dyn Primitive, wakes: &Wakes) {
        let filter = MessageFilter::Exact(primitive.key().to_shared());
        self.everyone
            .get_or_insert_with(|| Box::new(wakes.listen(filter)));
    }

    /// Ends the subscription of an attempt that was given up.
    pub(super) fn forget_attempt(&mut self, discipline: Discipline) {
        match discipline {
            Discipline::Barging => {}
            // A message names the attempt.
            Discipline::Queued => self.own = None,
        }
    }

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
