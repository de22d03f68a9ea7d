//! A slot that moves between two masters of a cluster, key by key.
//!
//! The masters are doors to one engine. While a slot moves, each of its keys is behind one of two
//! doors, and both answer as the nodes of a cluster do.

use std::collections::BTreeSet;

use redlatch_core::{
    family::slot_of,
    runtime::{Command, Reply, ServerError, Value},
};

use super::{
    ConnId, Net, State,
    masters::{HOST, PORT, Seat},
};
use crate::{names::label, scripts, server::Server};

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
    /// Answers a command with these keys, if the engine must not: the former door sends the client
    /// on for keys that it lacks, and neither door serves keys that are split. The new door needs
    /// an `ASKING`.
    pub(super) fn answer(
        &self,
        seat: Seat,
        (slot, keys): (u16, &[&[u8]]),
        asking: bool,
        exists: impl Fn(&[u8]) -> bool,
    ) -> Option<Option<Reply>> {
        if slot != self.slot || seat != self.from && !(seat == self.to && asking) {
            return None;
        }
        let new = seat == self.to;
        let lacks = |key: &&&[u8]| !exists(key) || self.gone.contains(**key) != new;
        let missing = keys.iter().filter(lacks).count();
        let refuse = |text: String| Some(Some(Err(ServerError::parse(&text))));
        match missing {
            0 => Some(None),
            _ if new && keys.len() == 1 => Some(None),
            _ if new || missing < keys.len() => {
                refuse("TRYAGAIN Multiple keys request during rehashing of slot".to_owned())
            }
            _ => refuse(format!("ASK {slot} {HOST}:{}", PORT + self.to)),
        }
    }

    /// Records that the new door has served these keys.
    pub(super) fn served(&mut self, seat: Seat, (slot, keys): (u16, &[&[u8]])) {
        if slot == self.slot && seat == self.to {
            self.gone.extend(keys.iter().map(|key| key.to_vec()));
        }
    }
}

/// Returns the slot and the keys of a command, or the slot of its channel.
pub(super) fn keys_of(command: &Command) -> Option<(u16, Vec<&[u8]>)> {
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
    pub fn begin_move(&self, name: usize) -> Option<Seat> {
        let mut state = self.state();
        let slot = slot_of(label(name).as_bytes());
        let from = state.masters.owner(0, slot);
        let shards = state.masters.group.shards;
        let to = (from + 1 + state.rng.index(shards - 1)) % shards;
        if state.masters.moving.is_some() {
            return None;
        }
        state.masters.moving = Some(Moving {
            slot,
            from,
            to,
            gone: BTreeSet::new(),
        });
        Some(to)
    }

    /// Moves one key of the slot that moves. Returns the time until the next step in µs; `None`
    /// after the last.
    pub fn move_on(&self) -> Option<u64> {
        let mut guard = self.state();
        let state = &mut *guard;
        let moving = state.masters.moving.as_mut()?;
        let server = &state.servers[0];
        let left = server.dump(server.time(self.exec.now()));
        let mut left = left.into_iter().map(|key| key.key);
        let left = left.find(|key| slot_of(key) == moving.slot && !moving.gone.contains(key));
        let Some(key) = left else {
            self.end_move(state);
            return None;
        };
        self.watch.say(|| {
            let key = String::from_utf8_lossy(&key);
            format!("{key} moves to master {}", moving.to)
        });
        moving.gone.insert(key);
        // The node has other keys of the slot to move.
        Some(match state.rng.below(4) {
            0 => state.rng.between(0, 4_000_000),
            _ => state.rng.between(0, 50_000),
        })
    }

    /// Gives the slot that moves to its new master. The former one ends subscriptions.
    pub(super) fn end_move(&self, state: &mut State) {
        let Some(moving) = state.masters.moving.take() else {
            return;
        };
        let (slot, to) = (moving.slot, moving.to);
        self.watch
            .say(|| format!("slot {slot} belongs to master {to}"));
        state.masters.moved.insert(slot, to);
        for id in 0..state.conns.len() {
            if state.conns[id].master == moving.from {
                self.end_subscriptions(state, id, slot);
            }
        }
    }

    fn end_subscriptions(&self, state: &mut State, id: ConnId, slot: u16) {
        let link = &mut state.conns[id];
        let (node, Some(session)) = (link.node, link.session) else {
            return;
        };
        let (ended, kept) = std::mem::take(&mut link.shards)
            .into_iter()
            .partition::<BTreeSet<_>, _>(|channel| slot_of(channel) == slot);
        link.shards = kept;
        for channel in ended {
            let command = Command::new("SUNSUBSCRIBE").arg(&channel);
            let _ = state.servers[node].execute(session, &command, self.exec.now());
        }
        self.deliver(state, node);
    }
}

impl State {
    /// Handles an `ASKING`, and returns the reply to any other command that the engine must not
    /// answer.
    pub(super) fn redirect(&mut self, id: ConnId, command: &Command, now: u64) -> Option<Reply> {
        let (node, seat) = (self.conns[id].node, self.conns[id].master);
        if command.args().next() == Some(b"ASKING") {
            self.conns[id].asking = true;
            return Some(Ok(Value::Status("OK".to_owned())));
        }
        let asking = std::mem::take(&mut self.conns[id].asking);
        let replicas = self.replicas.count(node);
        let keys = keys_of(command);
        let (moving, server): (_, &Server) = (&mut self.masters.moving, &self.servers[node]);
        if let (Some(moving), Some((slot, keys))) = (moving, &keys) {
            let exists = |key: &[u8]| server.ttl(key, server.time(now)).is_some();
            if let Some(answer) = moving.answer(seat, (*slot, keys), asking, exists) {
                if answer.is_none() {
                    moving.served(seat, (*slot, keys));
                }
                return answer;
            }
        }
        let slot = keys.map(|(slot, _)| slot);
        let answer = self.masters.answer(seat, replicas, command, slot);
        if answer.is_none() && command.args().next() == Some(b"SSUBSCRIBE") {
            let channels = command.args().skip(1).map(<[u8]>::to_vec);
            self.conns[id].shards.extend(channels);
        }
        answer
    }
}
