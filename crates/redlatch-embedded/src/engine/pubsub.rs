//! Who listens to which channel, and what is on its way to them.

use std::collections::BTreeMap;

use redlatch_core::runtime::Push;

use super::SessionId;

/// A push on its way to one session, in the order in which the engine made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Whose connection it goes to.
    pub session: SessionId,
    /// What is told.
    pub push: Push,
}

/// The two kinds of channels; their names are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChannelKind {
    /// `PUBLISH` and `SUBSCRIBE`.
    Global,
    /// `SPUBLISH` and `SSUBSCRIBE`.
    Sharded,
}

/// All subscriptions, and the pushes not yet taken.
#[derive(Clone, Debug, Default)]
pub(super) struct PubSub {
    channels: BTreeMap<(ChannelKind, Vec<u8>), Vec<SessionId>>,
    pending: Vec<Delivery>,
}

impl PubSub {
    /// Sends a message to all who listen; returns how many.
    pub(super) fn publish(&mut self, kind: ChannelKind, channel: &[u8], payload: &[u8]) -> usize {
        let Some(listeners) = self.channels.get(&(kind, channel.to_vec())) else {
            return 0;
        };
        for session in listeners {
            let push = Push::Message {
                channel: channel.to_vec(),
                payload: payload.to_vec(),
            };
            self.pending.push(Delivery {
                session: *session,
                push,
            });
        }
        listeners.len()
    }

    pub(super) fn subscribe(&mut self, session: SessionId, kind: ChannelKind, channel: &[u8]) {
        let listeners = self.channels.entry((kind, channel.to_vec())).or_default();
        if !listeners.contains(&session) {
            listeners.push(session);
        }
        self.pending.push(Delivery {
            session,
            push: Push::Subscribed(channel.to_vec()),
        });
    }

    pub(super) fn unsubscribe(&mut self, session: SessionId, kind: ChannelKind, channel: &[u8]) {
        self.forget(session, &(kind, channel.to_vec()));
        self.pending.push(Delivery {
            session,
            push: Push::Unsubscribed(channel.to_vec()),
        });
    }

    /// The channels of this kind that a session listens to.
    pub(super) fn channels_of(&self, session: SessionId, kind: ChannelKind) -> Vec<Vec<u8>> {
        let own = self
            .channels
            .iter()
            .filter(|(_, listeners)| listeners.contains(&session));
        own.filter(|((other, _), _)| *other == kind)
            .map(|((_, name), _)| name.clone())
            .collect()
    }

    /// Forgets a session that has gone, with what was on its way to it.
    pub(super) fn close(&mut self, session: SessionId) {
        for kind in [ChannelKind::Global, ChannelKind::Sharded] {
            for channel in self.channels_of(session, kind) {
                self.forget(session, &(kind, channel));
            }
        }
        self.pending.retain(|delivery| delivery.session != session);
    }

    /// Takes what is on its way.
    pub(super) fn take(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.pending)
    }

    fn forget(&mut self, session: SessionId, channel: &(ChannelKind, Vec<u8>)) {
        let Some(listeners) = self.channels.get_mut(channel) else {
            return;
        };
        listeners.retain(|other| *other != session);
        if listeners.is_empty() {
            self.channels.remove(channel);
        }
    }
}
