//! Forged messages.

use redlatch_core::runtime::Push;
use redlatch_embedded::engine::KeyDump;

use super::{ConnId, Downward, Net};
use crate::{
    faults::Fault,
    names::{NAMES, name_of},
    workload::{field, members},
    world::keep,
};

/// A channel, and what is said on it.
pub(super) type Message = (Vec<u8>, Vec<u8>);

impl Net {
    /// Records a push to a client, in runs with forged messages.
    pub(super) fn overhear(&mut self, id: ConnId, push: &Push) {
        if !self.faults.has(Fault::ForgedCall) && !self.faults.has(Fault::ForgedOpening) {
            return;
        }
        match push.clone() {
            Push::Subscribed(channel) => {
                self.listeners.insert((id, channel));
            }
            Push::Unsubscribed(channel) => {
                self.listeners.remove(&(id, channel));
            }
            Push::Message { channel, payload } => {
                keep(&mut self.messages, (channel, payload), REMEMBERED);
            }
        }
    }

    fn keys(&self) -> Vec<KeyDump> {
        let server = &self.servers[0];
        server.engine.dump(server.time(self.exec.now()))
    }

    /// Makes up a notification of a waiter: one that was notified before, one that never existed,
    /// one by the name alone, or one that is not the first. A waiter that a release may grant the
    /// name also gets a grant that no release has made.
    fn make_call(&mut self) -> Option<Message> {
        let way = self.rng.below(4);
        if way == 3 {
            let waiters: Vec<_> = self.keys().iter().flat_map(waiting).collect();
            let (channel, mut call, ordered) = self.rng.pick(&waiters)?.clone();
            if ordered && self.rng.below(2) == 0 {
                let time = self.servers[0].time(self.exec.now());
                let (nonce, token, ends) = (self.rng.next(), time.micros(), time.millis() + 5_000);
                call.push_str(&format!(" g{nonce:016x}.{token}.{ends}.0"));
            }
            return Some((channel, call.into_bytes()));
        }
        let (channel, payload) = self.rng.pick(&self.messages)?.clone();
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
    fn make_opening(&mut self) -> Option<Message> {
        let keys = self.keys();
        let latches = keys.iter().filter_map(|key| {
            let generation: u64 = field(key, "g")?.parse().ok()?;
            Some((name_of(&String::from_utf8_lossy(&key.key))?, generation))
        });
        let latches: Vec<_> = latches.collect();
        let &(name, generation) = self.rng.pick(&latches)?;
        let channels = self.listeners.iter().map(|(_, channel)| channel);
        let channels: Vec<_> = channels
            .filter(|channel| String::from_utf8_lossy(channel).contains(NAMES[name]))
            .collect();
        let channel = (*self.rng.pick(&channels)?).clone();
        let generation = match self.rng.below(4) {
            0 => generation + 1,
            _ => generation,
        };
        let fate = ["open", "deleted"][self.rng.index(2)];
        Some((channel, format!("{fate} {generation}").into_bytes()))
    }

    /// Sends a forged message to all subscribers of a channel. Returns its description, if there is
    /// a message to forge.
    pub fn forge(&mut self, fault: Fault) -> Option<String> {
        let (channel, payload) = match fault {
            Fault::ForgedOpening => self.make_opening()?,
            _ => self.make_call()?,
        };
        let listeners = self.listeners.iter();
        let listeners = listeners.filter(|(_, other)| *other == channel);
        let listeners: Vec<_> = listeners.map(|&(id, _)| id).collect();
        let text = String::from_utf8_lossy;
        let (what, on, many) = (text(&payload), text(&channel), listeners.len());
        let said = format!("{what:?} is said on {on} to {many} listeners");
        for id in listeners {
            let (channel, payload) = (channel.clone(), payload.clone());
            let push = Push::Message { channel, payload };
            self.post_down(id, Downward::Push(push));
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
