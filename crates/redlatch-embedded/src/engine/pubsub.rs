//! The subscriptions of each channel, and the pushes that wait for delivery.

use std::collections::BTreeMap;

use redlatch_core::runtime::Push;

use super::SessionId;

/// A push for one session. The engine returns deliveries in the order in which it made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The session that receives the push.
    pub session: SessionId,
    /// The push.
    pub push: Push,
}

/// The two kinds of channels. Each has its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChannelKind {
    /// `PUBLISH` and `SUBSCRIBE`.
    Global,
    /// `SPUBLISH` and `SSUBSCRIBE`.
    Sharded,
}

/// All subscriptions, and the pushes that were not taken yet.
#[derive(Clone, Debug, Default)]
pub(super) struct PubSub {
    channels: BTreeMap<(ChannelKind, Vec<u8>), Vec<SessionId>>,
    pending: Vec<Delivery>,
    /// The messages of `PUBLISH` since they were taken; `None` if they are not kept.
    pub(super) published: Option<Vec<Message>>,
}

/// A channel, and the text of a message.
pub(super) type Message = (Vec<u8>, Vec<u8>);

impl PubSub {
    /// Sends a message to all subscribers, and keeps it for other nodes. Returns the number of
    /// subscribers.
    pub(super) fn publish(&mut self, kind: ChannelKind, channel: &[u8], payload: &[u8]) -> usize {
        if let (ChannelKind::Global, Some(published)) = (kind, &mut self.published) {
            published.push((channel.to_vec(), payload.to_vec()));
        }
        self.send(kind, channel, payload)
    }

    /// Sends a message to all subscribers. Returns their number.
    pub(super) fn send(&mut self, kind: ChannelKind, channel: &[u8], payload: &[u8]) -> usize {
        let Some(listeners) = self.channels.get(&(kind, channel.to_vec())) else {
            return 0;
        };
        for &session in listeners {
            let (channel, payload) = (channel.to_vec(), payload.to_vec());
            let push = Push::Message { channel, payload };
            self.pending.push(Delivery { session, push });
        }
        listeners.len()
    }

    pub(super) fn subscribe(&mut self, session: SessionId, kind: ChannelKind, channel: &[u8]) {
        let listeners = self.channels.entry((kind, channel.to_vec())).or_default();
        if !listeners.contains(&session) {
            listeners.push(session);
        }
        let push = Push::Subscribed(channel.to_vec());
        self.pending.push(Delivery { session, push });
    }

    pub(super) fn unsubscribe(&mut self, session: SessionId, kind: ChannelKind, channel: &[u8]) {
        let key = (kind, channel.to_vec());
        if let Some(listeners) = self.channels.get_mut(&key) {
            listeners.retain(|other| *other != session);
            if listeners.is_empty() {
                self.channels.remove(&key);
            }
        }
        let push = Push::Unsubscribed(channel.to_vec());
        self.pending.push(Delivery { session, push });
    }

    /// Returns the channels of this kind to which a session is subscribed.
    pub(super) fn channels_of(&self, session: SessionId, kind: ChannelKind) -> Vec<Vec<u8>> {
        let own = self
            .channels
            .iter()
            .filter(|((other, _), listeners)| *other == kind && listeners.contains(&session));
        own.map(|((_, name), _)| name.clone()).collect()
    }

    /// Forgets a closed session and the pushes for it.
    pub(super) fn close(&mut self, session: SessionId) {
        self.channels.retain(|_, listeners| {
            listeners.retain(|other| *other != session);
            !listeners.is_empty()
        });
        self.pending.retain(|delivery| delivery.session != session);
    }

    /// Returns the state after a restart: without subscriptions, and keeping messages as before.
    pub(super) fn restarted(&self) -> Self {
        Self {
            published: self.published.as_ref().map(|_| Vec::new()),
            ..Self::default()
        }
    }

    /// Takes the waiting pushes.
    pub(super) fn take(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.pending)
    }
}
