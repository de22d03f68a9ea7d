//! Forged messages.

use std::collections::BTreeSet;

use redlatch_core::runtime::Push;
use redlatch_embedded::engine::KeyDump;

use super::{ConnId, Downward, Net, State};
use crate::{
    exec::lock,
    faults::Fault,
    names::{NAMES, name_of},
    workload::{field, members},
};

/// The messages and subscriptions on the connections, from which messages are forged. They are only
/// recorded in runs with forged messages.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The subscriptions of each connection.
    listeners: BTreeSet<(ConnId, Vec<u8>)>,
    /// The latest messages, with their channels.
    messages: Vec<(Vec<u8>, Vec<u8>)>,
}

impl State {
    /// Records a push to a client.
    pub(super) fn overhear(&mut self, id: ConnId, push: &Push) {
        if !self.faults.has(Fault::ForgedCall) && !self.faults.has(Fault::ForgedOpening) {
            return;
        }
        match push {
            Push::Subscribed(channel) => {
                self.heard.listeners.insert((id, channel.clone()));
            }
            Push::Unsubscribed(channel) => {
                self.heard.listeners.remove(&(id, channel.clone()));
            }
            Push::Message { channel, payload } => {
                let message = (channel.clone(), payload.clone());
                self.heard.messages.push(message);
                if self.heard.messages.len() > REMEMBERED {
                    self.heard.messages.remove(0);
                }
            }
        }
    }

    fn keys(&self, now: u64) -> Vec<KeyDump> {
        let server = &self.servers[0];
        server.dump(server.time(now))
    }

    /// Makes up a notification of a waiter: one that was notified before, one that never existed,
    /// one by the name alone, or one that is not the first. A waiter that a release may grant the
    /// name also gets a grant that no release has made.
    fn make_call(&mut self, now: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let way = self.rng.below(4);
        if way == 3 {
            let keys = self.keys(now);
            let mut waiters: Vec<_> = keys.iter().flat_map(waiting).collect();
            if waiters.is_empty() {
                return None;
            }
            let at = self.rng.index(waiters.len());
            let (channel, mut call, ordered) = waiters.swap_remove(at);
            if ordered && self.rng.below(2) == 0 {
                let time = self.servers[0].time(now);
                let (nonce, token, ends) = (self.rng.next(), time.micros(), time.millis() + 5_000);
                call.push_str(&format!(" g{nonce:016x}.{token}.{ends}.0"));
            }
            return Some((channel, call.into_bytes()));
        }
        let heard = &self.heard.messages;
        if heard.is_empty() {
            return None;
        }
        let (channel, payload) = heard[self.rng.index(self.heard.messages.len())].clone();
        let text = String::from_utf8_lossy(&payload).into_owned();
        let payload = match (way, text.rsplit_once(' ')) {
            (1, Some((key, number))) => {
                let number: u64 = number.parse().unwrap_or(0);
                format!("{key} {}", number + self.rng.between(1, 40))
            }
            (2, Some((key, _))) => key.to_owned(),
            _ => text,
        };
        Some((channel, payload.into_bytes()))
    }

    /// Makes up a message that a latch is open or deleted: its present generation, or one that
    /// never existed.
    fn make_opening(&mut self, now: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let keys = self.keys(now);
        let latches = keys.iter().filter_map(|key| {
            let text = String::from_utf8_lossy(&key.key).into_owned();
            let generation: u64 = field(key, "g")?.parse().ok()?;
            Some((name_of(&text)?, generation))
        });
        let latches: Vec<_> = latches.collect();
        let (name, generation) = latches.get(self.rng.index(latches.len()))?;
        let channels: Vec<_> = self
            .heard
            .listeners
            .iter()
            .filter(|(_, channel)| String::from_utf8_lossy(channel).contains(NAMES[*name]))
            .collect();
        let (_, channel) = channels.get(self.rng.index(channels.len()))?;
        let channel = channel.clone();
        let generation = match self.rng.below(4) {
            0 => generation + 1,
            _ => *generation,
        };
        let fate = ["open", "deleted"][self.rng.index(2)];
        Some((channel, format!("{fate} {generation}").into_bytes()))
    }
}

impl Net {
    /// Sends a forged message to all subscribers of a channel. Returns its description, if there is
    /// a message to forge.
    pub fn forge(&self, fault: Fault) -> Option<String> {
        let mut state = lock(&self.state);
        let now = self.exec.now();
        let (channel, payload) = match fault {
            Fault::ForgedOpening => state.make_opening(now)?,
            _ => state.make_call(now)?,
        };
        let listeners = state.heard.listeners.iter();
        let listeners: Vec<_> = listeners
            .filter(|(_, other)| *other == channel)
            .map(|&(id, _)| id)
            .collect();
        let said = format!(
            "{:?} is said on {} to {} listeners",
            String::from_utf8_lossy(&payload),
            String::from_utf8_lossy(&channel),
            listeners.len()
        );
        for id in listeners {
            let push = Push::Message {
                channel: channel.clone(),
                payload: payload.clone(),
            };
            self.post_down(&mut state, id, Downward::Push(push));
        }
        Some(said)
    }
}

/// Returns the notifications of all waiters in a queue, whatever their places, with their channels,
/// and whether a release may grant them the name.
fn waiting(key: &KeyDump) -> Vec<(Vec<u8>, String, bool)> {
    let text = String::from_utf8_lossy(&key.key).into_owned();
    let Some(object) = text.strip_suffix(":q") else {
        return Vec::new();
    };
    let call = |member: String| {
        let mut words = member.split(' ').skip(1);
        let (channel, number) = (words.next()?, words.next()?);
        let ordered = words.next().is_some() && words.next().is_some();
        Some((channel.into(), format!("{object} {number}"), ordered))
    };
    members(key).into_iter().filter_map(call).collect()
}

/// The number of recorded messages.
const REMEMBERED: usize = 32;
