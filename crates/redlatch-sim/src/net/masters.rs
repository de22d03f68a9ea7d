//! Who is in charge: the masters and replicas of one or more shards, and the sentinels, as each of
//! them knows it.
//!
//! Without replicas, all masters of a cluster are doors to one engine, so they share its clock, and
//! a message of one reaches the subscribers of all. With replicas, each server has its own engine.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_core::{
    family::{SLOTS, slot_of},
    runtime::{Command, Reply, ServerError, Value},
};

use super::{Net, State, moving::Moving};
use crate::{
    names::label,
    plan::{Finding, Group},
    server::Server,
};

/// The number of a server that clients dial, or of a sentinel.
pub type Seat = usize;

/// All servers and sentinels, and what each of them knows.
#[derive(Debug)]
pub(super) struct Masters {
    pub(super) group: Group,
    health: Vec<Health>,
    /// The time of the last death.
    last_death: u64,
    /// Per server and sentinel, the master of each shard as far as it knows.
    known: Vec<Vec<Post>>,
    /// Per shard, the present master.
    pub(super) posts: Vec<Post>,
    /// The slots that were given to other masters.
    pub(super) moved: BTreeMap<u16, Seat>,
    /// The slot that moves.
    pub(super) moving: Option<Moving>,
}

/// The appointment of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// The number of appointments of this shard before.
    pub epoch: u64,
    /// The master.
    pub seat: Seat,
}

/// The health of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// It has served since this time.
    Up(u64),
    /// It is dead, and refuses connections or does not answer.
    Down(Death),
}

/// How a master dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Its process ends: connections are closed and refused.
    Process,
    /// Its machine fails: nobody closes or refuses connections.
    Machine,
}

impl Masters {
    pub(super) fn new(group: Group) -> Self {
        let first = |shard| Post {
            epoch: 0,
            seat: group.seats(shard).start,
        };
        let posts: Vec<_> = (0..group.shards).map(first).collect();
        let all = group.all();
        Self {
            group,
            health: vec![Health::Up(0); all],
            last_death: 0,
            known: vec![posts.clone(); all],
            posts,
            moved: BTreeMap::new(),
            moving: None,
        }
    }

    /// Lets all masters serve again.
    pub(super) fn heal(&mut self, now: u64) {
        let dead = self
            .health
            .iter_mut()
            .filter(|health| matches!(health, Health::Down(_)));
        dead.for_each(|health| *health = Health::Up(now));
    }

    /// Returns how a master has died, if it is dead.
    pub(super) fn death(&self, seat: Seat) -> Option<Death> {
        match self.health.get(seat)? {
            Health::Up(_) => None,
            Health::Down(death) => Some(*death),
        }
    }

    /// Tells whether a server believes that it is a master.
    pub(super) fn leads(&self, seat: Seat) -> bool {
        let shard = self.group.shard_of(seat);
        shard.is_none_or(|shard| self.known[seat][shard].seat == seat)
    }

    /// Records at one server or sentinel who is in charge. Returns false if it knows that already,
    /// or knows of a later appointment.
    pub(super) fn learn(&mut self, seat: Seat, shard: usize, post: Post) -> bool {
        let known = &mut self.known[seat][shard];
        let news = known.epoch < post.epoch;
        if news {
            *known = post;
        }
        news
    }

    /// Returns the master of a slot, as far as a server knows.
    pub(super) fn owner(&self, seat: Seat, slot: u16) -> Seat {
        let drawn = || self.known[seat][self.group.shard_with(slot)].seat;
        self.moved.get(&slot).copied().unwrap_or_else(drawn)
    }

    /// Answers a command as a node of a cluster or a sentinel does, if the engine would answer
    /// otherwise. `replicas` is the number of replicas that follow the server, and `slot` is that
    /// of the command.
    pub(super) fn answer(
        &self,
        seat: Seat,
        replicas: usize,
        command: &Command,
        slot: Option<u16>,
    ) -> Option<Reply> {
        if self.group.finding == Finding::Fixed {
            return None;
        }
        let args: Vec<_> = command.args().collect();
        match args[..] {
            [b"CLUSTER", b"SLOTS"] => return Some(Ok(self.slots(seat))),
            [b"SENTINEL", what, _] => return Some(Ok(self.watched(seat, what))),
            [b"ROLE"] if self.group.replicas > 0 && self.leads(seat) => {
                let replicas = vec![list(["sim", "0", "0"]); replicas];
                let role = vec![bulk("master"), Value::Int(0), Value::Array(replicas)];
                return Some(Ok(Value::Array(role)));
            }
            _ if self.group.finding != Finding::Cluster => return None,
            _ => {}
        }
        let slot = slot?;
        let owner = self.owner(seat, slot);
        (owner != seat).then(|| {
            let port = PORT + owner;
            Err(ServerError::parse(&format!("MOVED {slot} {HOST}:{port}")))
        })
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
}

impl Net {
    /// Kills a master, unless one is dead. Returns whether it has died.
    pub fn lose_master(&self, master: Seat, death: Death) -> bool {
        let mut state = self.state();
        if (0..state.masters.health.len()).any(|other| state.masters.death(other).is_some()) {
            return false;
        }
        state.masters.health[master] = Health::Down(death);
        state.masters.last_death = self.exec.now();
        let told = death == Death::Process;
        self.sever(&mut state, |link| link.master == master, told);
        true
    }

    /// Lets a dead master serve again, with its data.
    pub fn restore_master(&self, master: Seat) {
        let now = self.exec.now();
        let mut state = self.state();
        if state.masters.death(master).is_some() {
            state.masters.health[master] = Health::Up(now);
        }
    }

    /// Tells whether no master has died since `time`.
    pub fn nobody_died_since(&self, time: u64) -> bool {
        self.state().masters.last_death <= time
    }

    /// Tells whether the masters of these names have served since `time`.
    pub fn lived_since(&self, names: &[usize], time: u64) -> bool {
        let state = self.state();
        let mut masters = names.iter().map(|&name| {
            let slot = slot_of(label(name).as_bytes());
            let shard = state.masters.group.shard_with(slot);
            state.masters.health[state.masters.posts[shard].seat]
        });
        masters.all(|health| matches!(health, Health::Up(since) if since <= time))
    }
}

impl State {
    /// Returns the servers that believe to be masters.
    pub fn leading(&self) -> impl Iterator<Item = &Server> {
        let servers = self.servers.iter().enumerate();
        let leading = servers.filter(|(seat, _)| self.masters.leads(*seat));
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
