//! Who is in charge: the masters and replicas of one or more shards, and the sentinels, as each of
//! them knows it.
//!
//! Without replicas, all masters of a cluster are doors to one engine, so they share its clock, and
//! a message of one reaches the subscribers of all. With replicas, each server has its own engine.

use std::collections::BTreeSet;

use redlatch_core::{
    family::{SLOTS, slot_of},
    runtime::{Command, Reply, Value},
};

use super::{ConnId, Net, refusals::error};
use crate::{names::label, plan::Finding, server::Server};

/// The number of a server that clients dial, or of a sentinel.
pub type Seat = usize;

/// The appointment of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// The number of appointments of this shard before.
    pub epoch: u64,
    /// The master.
    pub seat: Seat,
}

/// How a master dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Its process ends: connections are closed and refused.
    Process,
    /// Its machine fails: nobody closes or refuses connections.
    Machine,
}

impl Net {
    /// Lets the dead master serve again, with its data.
    pub(super) fn revive(&mut self) {
        if let Some((seat, _)) = self.dead.take() {
            self.since[seat] = self.exec.now();
        }
    }

    /// Returns how a master has died, if it is dead.
    pub(super) fn death(&self, seat: Seat) -> Option<Death> {
        let (_, death) = self.dead.filter(|&(dead, _)| dead == seat)?;
        Some(death)
    }

    /// Tells whether a server believes that it is a master.
    pub(super) fn leads(&self, seat: Seat) -> bool {
        let shard = self.group.shard_of(seat);
        shard.is_none_or(|shard| self.known[seat][shard].seat == seat)
    }

    /// Returns the master of a slot, as far as a server knows.
    pub(super) fn owner(&self, seat: Seat, slot: u16) -> Seat {
        let drawn = || self.known[seat][self.group.shard_with(slot)].seat;
        self.moved.get(&slot).copied().unwrap_or_else(drawn)
    }

    /// Returns the reply to `CLUSTER SLOTS`. A dead master without a replica keeps its slots.
    fn slots(&self, seat: Seat) -> Value {
        let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(0));
        let shards = self.group.shards;
        let shards = (0..shards).map(|shard| (shard * usize::from(SLOTS)).div_ceil(shards));
        let moved = self.moved.keys().map(|&slot| usize::from(slot));
        let moved = moved.flat_map(|slot| [slot, slot + 1]);
        let bounds: BTreeSet<_> = shards.chain(moved).chain([usize::from(SLOTS)]).collect();
        let bounds = Vec::from_iter(bounds);
        let node = |seat: Seat| Value::Array(vec![Value::Bulk(HOST.into()), int(PORT + seat)]);
        let range = |bounds: &[usize]| {
            let master = self.owner(seat, u16::try_from(bounds[0]).unwrap_or(0));
            let shard = self.group.shard_of(master).unwrap_or(0);
            let others = self.group.seats(shard).filter(|&other| other != master);
            let nodes = std::iter::once(master).chain(others).map(node);
            let bounds = [int(bounds[0]), int(bounds[1] - 1)];
            Value::Array(bounds.into_iter().chain(nodes).collect())
        };
        Value::Array(bounds.windows(2).map(range).collect())
    }

    /// Returns a sentinel's reply about the master and its replicas.
    fn watched(&self, sentinel: Seat, what: &[u8]) -> Value {
        let Post { epoch, seat } = self.known[sentinel][0];
        let port = |seat: Seat| (PORT + seat).to_string();
        match what {
            b"MASTER" => {
                let replicas = self.group.replicas.to_string();
                let epoch = epoch.to_string();
                list(["config-epoch", &epoch, "num-slaves", &replicas])
            }
            b"REPLICAS" => {
                let others = self.group.seats(0).filter(|&other| other != seat);
                let others = others.map(|other| list(["ip", HOST, "port", &port(other)]));
                Value::Array(others.collect())
            }
            _ => list([HOST, &port(seat)]),
        }
    }

    /// Answers a command as a node of a cluster or a sentinel does, if the engine would answer
    /// otherwise. `slot` is that of the command.
    pub(super) fn answer(&self, id: ConnId, command: &Command, slot: Option<u16>) -> Option<Reply> {
        let (node, seat) = (self.conns[id].node, self.conns[id].master);
        let args: Vec<_> = command.args().collect();
        match (self.group.finding, &args[..]) {
            (Finding::Fixed, _) => None,
            (_, [b"CLUSTER", b"SLOTS"]) => Some(Ok(self.slots(seat))),
            (_, [b"SENTINEL", what, _]) => Some(Ok(self.watched(seat, what))),
            (_, [b"ROLE"]) if self.group.replicas > 0 && self.leads(seat) => {
                let replicas = self.followers(node).count();
                let replicas = vec![list(["sim", "0", "0"]); replicas];
                let role = vec![bulk("master"), Value::Int(0), Value::Array(replicas)];
                Some(Ok(Value::Array(role)))
            }
            (Finding::Cluster, _) => {
                let slot = slot?;
                let owner = self.owner(seat, slot);
                let moved = || error(&format!("MOVED {slot} {HOST}:{}", PORT + owner));
                (owner != seat).then(moved)
            }
            _ => None,
        }
    }

    /// Kills a master for `span` µs, unless one is dead. Returns whether it has died.
    pub fn lose_master(&mut self, master: Seat, death: Death, span: u64) -> bool {
        if self.dead.is_some() {
            return false;
        }
        self.dead = Some((master, death));
        self.last_death = self.exec.now();
        let told = death == Death::Process;
        self.sever(|link| link.master == master, told);
        self.after(span, move |net| {
            net.watch.say(|| format!("master {master} is back"));
            net.revive();
        });
        true
    }

    /// Tells whether the masters of these names have served since `time`.
    pub fn lived_since(&self, names: &[usize], time: u64) -> bool {
        names.iter().all(|&name| {
            let slot = slot_of(label(name).as_bytes());
            let seat = self.posts[self.group.shard_with(slot)].seat;
            self.death(seat).is_none() && self.since[seat] <= time
        })
    }

    /// Returns the servers that believe to be masters.
    pub fn leading(&self) -> impl Iterator<Item = &Server> {
        let servers = self.servers.iter().enumerate();
        let leading = servers.filter(|(seat, _)| self.leads(*seat));
        leading.map(|(_, server)| server)
    }
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.into())
}

fn list<const N: usize>(items: [&str; N]) -> Value {
    Value::Array(items.map(bulk).into())
}

/// The host of all servers and sentinels.
pub(super) const HOST: &str = "sim-cluster";

/// The port of the first server.
pub(super) const PORT: usize = 7000;
