//! A slot that moves between two masters of a cluster, key by key.
//!
//! The masters are doors to one engine. While a slot moves, each of its keys is behind one of two
//! doors, and both answer as the nodes of a cluster do.

use std::{collections::BTreeSet, mem};

use redlatch_core::{
    family::slot_of,
    runtime::{Command, Reply, Value},
};

use super::{
    ConnId, Net,
    masters::{HOST, PORT, Seat},
    refusals::error,
};
use crate::{names::label, scripts};

/// A slot on the move.
#[derive(Debug)]
pub(super) struct Moving {
    slot: u16,
    from: Seat,
    to: Seat,
    /// The keys that are not behind the former door, whether they exist or not.
    gone: BTreeSet<Vec<u8>>,
}

impl Moving {
    /// Tells whether a door serves the slot: the former one does, and the new one behind an
    /// `ASKING`.
    fn serves(&self, slot: u16, seat: Seat, asking: bool) -> bool {
        slot == self.slot && (seat == self.from || seat == self.to && asking)
    }

    /// Answers a command with these keys, if the engine must not: the former door sends the client
    /// on for keys that it lacks, and neither door serves keys that are split.
    fn answer(&self, seat: Seat, keys: &[&[u8]], exists: impl Fn(&[u8]) -> bool) -> Option<Reply> {
        let new = seat == self.to;
        let lacks = |key: &&&[u8]| !exists(key) || self.gone.contains(**key) != new;
        let missing = keys.iter().filter(lacks).count();
        match missing {
            0 => None,
            _ if new && keys.len() == 1 => None,
            _ if new || missing < keys.len() => {
                let line = "TRYAGAIN Multiple keys request during rehashing of slot";
                Some(error(line))
            }
            _ => {
                let (slot, port) = (self.slot, PORT + self.to);
                Some(error(&format!("ASK {slot} {HOST}:{port}")))
            }
        }
    }
}

/// Returns the slot and the keys of a command, or the slot of its channel.
fn keys_of(command: &Command) -> Option<(u16, Vec<&[u8]>)> {
    let args: Vec<_> = command.args().collect();
    let keys = match *args.first()? {
        verb if verb.starts_with(b"EVAL") => scripts::keys_of(command)?,
        b"GET" | b"SET" | b"DEL" => vec![*args.get(1)?],
        b"SSUBSCRIBE" | b"SPUBLISH" => return Some((slot_of(args.get(1)?), Vec::new())),
        _ => return None,
    };
    Some((slot_of(keys.first()?), keys))
}

impl Net {
    /// Begins to move the slot of a name to another master. Returns the new one, unless a slot
    /// moves already.
    pub fn begin_move(&mut self, name: usize) -> Option<Seat> {
        let slot = slot_of(label(name).as_bytes());
        let from = self.owner(0, slot);
        let shards = self.group.shards;
        let to = (from + 1 + self.rng.index(shards - 1)) % shards;
        if self.moving.is_some() {
            return None;
        }
        self.moving = Some(Moving {
            slot,
            from,
            to,
            gone: BTreeSet::new(),
        });
        self.after(0, Self::move_on);
        Some(to)
    }

    /// Moves one key of the slot that moves, and later the next.
    fn move_on(&mut self) {
        let Some(moving) = &mut self.moving else {
            return;
        };
        let server = &self.servers[0];
        let left = server.engine.dump(server.time(self.exec.now()));
        let mut left = left.into_iter().map(|key| key.key);
        let left = left.find(|key| slot_of(key) == moving.slot && !moving.gone.contains(key));
        let Some(key) = left else {
            return self.end_move();
        };
        self.watch.say(|| {
            let key = String::from_utf8_lossy(&key);
            format!("{key} moves to master {}", moving.to)
        });
        moving.gone.insert(key);
        // The node has other keys of the slot to move.
        let longest = match self.rng.below(4) {
            0 => 4_000_000,
            _ => 50_000,
        };
        let span = self.rng.between(0, longest);
        self.after(span, Self::move_on);
    }

    /// Gives the slot that moves to its new master. The former one ends subscriptions.
    pub(super) fn end_move(&mut self) {
        let Some(moving) = self.moving.take() else {
            return;
        };
        let (slot, to) = (moving.slot, moving.to);
        self.watch
            .say(|| format!("slot {slot} belongs to master {to}"));
        self.moved.insert(slot, to);
        for id in self.find(|link| link.master == moving.from) {
            self.end_subscriptions(id, slot);
        }
    }

    fn end_subscriptions(&mut self, id: ConnId, slot: u16) {
        let link = &mut self.conns[id];
        let (node, Some(session)) = (link.node, link.session) else {
            return;
        };
        let shards = mem::take(&mut link.shards).into_iter();
        let (ended, kept) = shards.partition(|channel| slot_of(channel) == slot);
        link.shards = kept;
        for channel in ended {
            let command = Command::new("SUNSUBSCRIBE").arg(&channel);
            let _ = self.servers[node].execute(session, &command, self.exec.now());
        }
        self.deliver(node);
    }

    /// Handles an `ASKING`, and returns the reply to any other command that the engine must not
    /// answer.
    pub(super) fn redirect(&mut self, id: ConnId, command: &Command) -> Option<Reply> {
        let link = &mut self.conns[id];
        let (node, seat) = (link.node, link.master);
        let verb = command.args().next();
        let asking = mem::replace(&mut link.asking, verb == Some(b"ASKING"));
        if link.asking {
            return Some(Ok(Value::Status("OK".to_owned())));
        }
        let keys = keys_of(command);
        if let (Some(moving), Some((slot, keys))) = (&mut self.moving, &keys)
            && moving.serves(*slot, seat, asking)
        {
            let server = &self.servers[node];
            let time = server.time(self.exec.now());
            let answer = moving.answer(seat, keys, |key| server.engine.ttl(key, time).is_some());
            if answer.is_none() && seat == moving.to {
                moving.gone.extend(keys.iter().map(|key| key.to_vec()));
            }
            return answer;
        }
        let answer = self.answer(id, command, keys.map(|(slot, _)| slot));
        if answer.is_none() && verb == Some(b"SSUBSCRIBE") {
            let channels = command.args().skip(1).map(<[u8]>::to_vec);
            self.conns[id].shards.extend(channels);
        }
        answer
    }
}
