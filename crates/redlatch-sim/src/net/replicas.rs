//! Replication: what each replica has applied, and the answers to `WAIT`.
//!
//! A replica gets the data as they are behind each command that has changed something, in order and
//! each time later by a drawn lag. It confirms what it has applied.

use std::collections::VecDeque;

use redlatch_core::runtime::{Command, Outcome, Value};
use redlatch_embedded::{Model, engine::Snapshot};

use super::{ConnId, Net, State, Upward, masters::Seat, serve::Pipeline};
use crate::{mutants::What, world::Event};

/// What the replicas follow.
#[derive(Debug)]
pub(super) struct Replicas {
    /// Per server, what it follows; `None` for one that follows none.
    follows: Vec<Option<Following>>,
    /// Per server, the number of its effects that were sent to its followers.
    sent: Vec<u64>,
    streams: u64,
}

/// What one replica follows.
#[derive(Clone, Copy, Debug)]
struct Following {
    of: Seat,
    stream: u64,
    /// The effects of the followed server that it has applied; `None` before it has any data.
    applied: Option<u64>,
    /// Those that it has confirmed.
    acked: Option<u64>,
    /// The arrival time of the last data.
    last: u64,
    /// The longest usual lag in µs.
    lag: u64,
}

/// Data on the way to a replica.
#[derive(Debug)]
pub struct Parcel {
    to: Seat,
    stream: u64,
    effects: u64,
    data: Snapshot,
}

/// A connection on which the server waits for replicas.
#[derive(Debug)]
pub(super) struct Waiting {
    needed: usize,
    until: u64,
    /// The commands behind the `WAIT`.
    rest: Pipeline,
    /// The messages that have arrived meanwhile.
    pub(super) queue: VecDeque<Upward>,
}

impl Replicas {
    pub(super) fn new(servers: usize) -> Self {
        Self {
            follows: vec![None; servers],
            sent: vec![0; servers],
            streams: 0,
        }
    }

    /// Returns the servers that follow `seat`.
    fn followers(&self, seat: Seat) -> impl Iterator<Item = (Seat, &Following)> {
        let all = self.follows.iter().enumerate();
        all.filter_map(move |(other, follows)| {
            let follows = follows.as_ref()?;
            (follows.of == seat).then_some((other, follows))
        })
    }

    /// Returns the number of servers that follow `seat`.
    pub(super) fn count(&self, seat: Seat) -> usize {
        self.followers(seat).count()
    }

    /// Returns the servers that follow `seat` and have data of it, with what they have applied.
    pub(super) fn in_step(&self, seat: Seat) -> Vec<(Seat, u64)> {
        let all = self.followers(seat);
        all.filter_map(|(other, follows)| Some((other, follows.applied?)))
            .collect()
    }

    /// Lets a server follow none.
    pub(super) fn leads(&mut self, seat: Seat) {
        self.follows[seat] = None;
    }
}

impl Net {
    /// Makes a server follow another, whose data replace its own after `span` µs.
    pub(super) fn follow(&self, state: &mut State, seat: Seat, of: Seat, span: u64) {
        let lag = match state.rng.below(20) {
            0..=11 => state.rng.between(200, 5_000),
            12..=16 => state.rng.between(5_000, 100_000),
            _ => state.rng.between(100_000, 2_000_000),
        };
        let lag = if span == 0 { 1_000 } else { lag };
        state.replicas.streams += 1;
        let following = Following {
            of,
            stream: state.replicas.streams,
            applied: None,
            acked: None,
            last: self.exec.now() + span,
            lag,
        };
        state.replicas.follows[seat] = Some(following);
        self.send_parcel(state, seat);
    }

    /// Replaces a replica by another machine without data, whose clock is `ahead` µs ahead of the
    /// slowest. Clients have not compared that clock with others.
    pub fn swap(&self, seat: Seat, of: Seat, ahead: u64) {
        let mut state = self.state();
        self.watch
            .say(|| format!("server {seat} is replaced, its clock is {ahead} µs ahead"));
        let now = self.exec.now();
        state.servers[seat].replace(&Snapshot::empty(), ahead, now);
        state.servers[seat].set_replica(true);
        self.disconnect(&mut state, seat);
        let span = state.rng.between(1_000, 300_000);
        self.follow(&mut state, seat, of, span);
    }

    /// Sends the data of the followed server to a replica.
    fn send_parcel(&self, state: &mut State, to: Seat) {
        let Some(following) = state.replicas.follows[to] else {
            return;
        };
        let now = self.exec.now();
        let lag = state.rng.between(100, following.lag);
        let apart = state.apart_until(following.of, to, now);
        let at = (now + lag).max(following.last + 1).max(apart);
        if let Some(following) = &mut state.replicas.follows[to] {
            following.last = at;
        }
        let server = &state.servers[following.of];
        let parcel = Parcel {
            to,
            stream: following.stream,
            effects: server.effects(),
            data: server.snapshot(),
        };
        self.exec.schedule(at, Event::Parcel(parcel));
    }

    /// Sends what a command has changed to the replicas, and remembers for a later `WAIT` on this
    /// connection what they have to confirm.
    pub(super) fn replicate(&self, state: &mut State, node: usize, id: Option<ConnId>) {
        if state.masters.group.replicas == 0 {
            return;
        }
        let engine = &state.servers[node];
        let (effects, model) = (engine.effects(), engine.model());
        let changed = effects != std::mem::replace(&mut state.replicas.sent[node], effects);
        if let Some(id) = id
            && (changed || model < Model::Valkey9_1)
        {
            state.conns[id].written = effects;
        }
        if changed {
            let followers: Vec<_> = state.replicas.followers(node).map(|it| it.0).collect();
            for follower in followers {
                self.send_parcel(state, follower);
            }
        }
    }

    /// Gives a replica the data that have reached it.
    pub fn apply(&self, parcel: Parcel) {
        let mut state = self.state();
        let to = parcel.to;
        if state.stopped[to] {
            let at = self.exec.now() + 20_000;
            return self.exec.schedule(at, Event::Parcel(parcel));
        }
        let now = self.exec.now();
        let cut_off = |of| state.apart_until(of, to, now) > 0;
        let lost = state.replicas.follows[to].is_some_and(|it| cut_off(it.of));
        let following = state.replicas.follows[to].as_mut();
        let current = following.filter(|it| it.stream == parcel.stream);
        let Some(following) = current.filter(|it| it.applied < Some(parcel.effects)) else {
            return;
        };
        following.applied = Some(parcel.effects);
        if !lost {
            following.acked = following.applied;
        }
        let of = following.of;
        state.servers[to].restore(&parcel.data);
        for id in 0..state.conns.len() {
            if state.conns[id].node == of {
                self.end_wait(&mut state, id);
            }
        }
    }

    /// Ends the wait of a connection whose time is over.
    pub fn waited(&self, id: ConnId) {
        self.end_wait(&mut self.state(), id);
    }

    /// Answers a `WAIT` and returns the pipeline, or keeps the pipeline until replicas have
    /// confirmed or the time of the `WAIT` is over.
    pub(super) fn wait(
        &self,
        state: &mut State,
        id: ConnId,
        command: &Command,
        mut rest: Pipeline,
    ) -> Option<Pipeline> {
        let mut numbers = command.args().skip(1).map(|arg| {
            let text = std::str::from_utf8(arg).ok();
            text.and_then(|text| text.parse().ok()).unwrap_or(0)
        });
        let (needed, millis) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let confirmed = state.confirmed(id);
        if confirmed >= usize::try_from(needed).unwrap_or(usize::MAX) {
            rest.outcomes.push(count(confirmed));
            return Some(rest);
        }
        let until = self.exec.now() + millis * 1_000;
        self.exec.schedule(until, Event::Waited(id));
        state.conns[id].waiting = Some(Waiting {
            needed: usize::try_from(needed).unwrap_or(usize::MAX),
            until,
            rest,
            queue: VecDeque::new(),
        });
        None
    }

    /// Goes on with a connection if enough replicas have confirmed, or if its time is over.
    fn end_wait(&self, state: &mut State, id: ConnId) {
        let (now, confirmed) = (self.exec.now(), state.confirmed(id));
        let Some(waiting) = &state.conns[id].waiting else {
            return;
        };
        if confirmed < waiting.needed && now < waiting.until {
            return;
        }
        if state.stopped[state.conns[id].node] {
            return self.exec.after(20_000, Event::Waited(id));
        }
        let Some(mut waiting) = state.conns[id].waiting.take() else {
            return;
        };
        self.watch
            .say(|| format!("{confirmed} replicas have confirmed, on connection {id}"));
        waiting.rest.outcomes.push(count(confirmed));
        self.go_on(state, id, waiting.rest);
        for message in waiting.queue {
            self.serve(state, id, message);
        }
    }
}

impl State {
    /// Returns the number of replicas that have confirmed all that was written on a connection.
    fn confirmed(&self, id: ConnId) -> usize {
        let link = &self.conns[id];
        let written = match self.planted {
            Some(What::WaitsElsewhere) => 0,
            _ => link.written,
        };
        let replicas = self.replicas.followers(link.node);
        let confirmed = |follows: &Following| follows.acked >= Some(written);
        replicas.filter(|(_, follows)| confirmed(follows)).count()
    }
}

fn count(replicas: usize) -> Outcome {
    let replicas = i64::try_from(replicas).unwrap_or(i64::MAX);
    Outcome::Replied(Ok(Value::Int(replicas)))
}
