//! A cluster: several masters, each of which serves a part of the slots.
//!
//! All of them are doors to one engine, so they share its clock, and a message of one reaches the
//! subscribers of all. The data of a dead master cannot be reached, and is there when it is back.

use redlatch_core::{
    family::{SLOTS, slot_of},
    runtime::{Command, Reply, ServerError, Value},
};

use super::{Downward, Net};
use crate::{names::label, world::Event};

/// The number of a master.
pub(super) type Master = usize;

/// The masters of a cluster, or one server that is no cluster.
#[derive(Debug)]
pub(super) struct Masters {
    health: Vec<Health>,
    /// The time of the last death.
    last_death: u64,
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
    pub(super) fn new(number: usize) -> Self {
        Self {
            health: vec![Health::Up(0); number],
            last_death: 0,
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
    pub(super) fn death(&self, master: Master) -> Option<Death> {
        match self.health[master] {
            Health::Up(_) => None,
            Health::Down(death) => Some(death),
        }
    }

    /// Returns the master of a slot.
    fn of(&self, slot: u16) -> Master {
        usize::from(slot) * self.health.len() / usize::from(SLOTS)
    }

    /// Answers a command as a node of a cluster does, if the engine would answer it in another way.
    pub(super) fn answer(&self, master: Master, command: &Command) -> Option<Reply> {
        if self.health.len() == 1 {
            return None;
        }
        let args: Vec<_> = command.args().collect();
        if args == [&b"CLUSTER"[..], b"SLOTS"] {
            return Some(Ok(self.slots()));
        }
        let place = match *args.first()? {
            verb if verb.starts_with(b"EVAL") => 3,
            b"SSUBSCRIBE" | b"SPUBLISH" | b"GET" | b"SET" | b"DEL" => 1,
            _ => return None,
        };
        let slot = slot_of(args.get(place)?);
        let owner = self.of(slot);
        (owner != master).then(|| {
            let port = PORT + owner;
            Err(ServerError::parse(&format!("MOVED {slot} {HOST}:{port}")))
        })
    }

    /// Returns the reply to `CLUSTER SLOTS`. A dead master without a replica keeps its slots.
    fn slots(&self) -> Value {
        let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(0));
        let first = |master: Master| (master * usize::from(SLOTS)).div_ceil(self.health.len());
        let range = |master: Master| {
            let node = vec![Value::Bulk(HOST.into()), int(PORT + master)];
            let last = first(master + 1) - 1;
            Value::Array(vec![int(first(master)), int(last), Value::Array(node)])
        };
        Value::Array((0..self.health.len()).map(range).collect())
    }
}

impl Net {
    /// Kills a master, unless one is dead. Returns whether it has died.
    pub fn lose_master(&self, master: Master, death: Death) -> bool {
        let mut state = self.state();
        if (0..state.masters.health.len()).any(|other| state.masters.death(other).is_some()) {
            return false;
        }
        state.masters.health[master] = Health::Down(death);
        state.masters.last_death = self.exec.now();
        for id in 0..state.conns.len() {
            if state.conns[id].master != master {
                continue;
            }
            let delay = state.delay();
            let link = &mut state.conns[id];
            link.upward.limit = Some(link.upward.arrived);
            let (node, session) = (link.node, link.session.take());
            let told = link.open && !link.severed && death == Death::Process;
            link.severed = true;
            if told {
                let at = self.exec.now() + delay;
                self.exec.schedule(at, Event::Down(id, Downward::Closed));
            }
            if let Some(session) = session {
                state.servers[node].close(session);
            }
        }
        true
    }

    /// Lets a dead master serve again, with its data.
    pub fn restore_master(&self, master: Master) {
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
            state.masters.health[state.masters.of(slot)]
        });
        masters.all(|health| matches!(health, Health::Up(since) if since <= time))
    }
}

/// The host of all masters.
pub(super) const HOST: &str = "sim-cluster";

/// The port of the first master.
pub(super) const PORT: usize = 7000;
