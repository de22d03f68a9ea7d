//! Replication: what each replica has applied, and the answers to `WAIT`.
//!
//! A replica gets the data as they are behind each command that has changed something, in order and
//! each time later by a drawn lag. It confirms what it has applied.

use redlatch_core::runtime::{Command, Outcome, Value};
use redlatch_embedded::{Model, engine::Snapshot};

use super::{ConnId, Net, masters::Seat, serve::Pipeline};
use crate::mutants::What;

/// What one replica follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
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

/// A connection on which the server waits for replicas.
#[derive(Debug)]
pub(super) struct Waiting {
    needed: u64,
    until: u64,
    /// The commands behind the `WAIT`.
    rest: Pipeline,
    /// The requests that have arrived meanwhile.
    pub(super) queue: Vec<Pipeline>,
}

impl Net {
    /// Returns the servers that follow `seat`.
    pub(super) fn followers(&self, seat: Seat) -> impl Iterator<Item = (Seat, &Following)> {
        let all = self.follows.iter().enumerate();
        all.filter_map(move |(other, follows)| {
            let follows = follows.as_ref()?;
            (follows.of == seat).then_some((other, follows))
        })
    }

    /// Returns the servers that follow `seat` and have data of it, with what they have applied.
    pub(super) fn in_step(&self, seat: Seat) -> Vec<(Seat, u64)> {
        let all = self.followers(seat);
        all.filter_map(|(other, follows)| Some((other, follows.applied?)))
            .collect()
    }

    /// Makes a server follow another, whose data replace its own after `span` µs.
    pub(super) fn follow(&mut self, seat: Seat, of: Seat, span: u64) {
        let lag = match self.rng.below(20) {
            0..=11 => self.rng.between(200, 5_000),
            12..=16 => self.rng.between(5_000, 100_000),
            _ => self.rng.between(100_000, 2_000_000),
        };
        let lag = if span == 0 { 1_000 } else { lag };
        self.streams += 1;
        self.follows[seat] = Some(Following {
            of,
            stream: self.streams,
            applied: None,
            acked: None,
            last: self.exec.now() + span,
            lag,
        });
        self.send_parcel(seat);
    }

    /// Replaces a replica by another machine without data, whose clock is `ahead` µs ahead of the
    /// slowest. Clients have not compared that clock with others.
    pub fn swap(&mut self, seat: Seat, of: Seat, ahead: u64) {
        self.watch
            .say(|| format!("server {seat} is replaced, its clock is {ahead} µs ahead"));
        self.restart(seat, &Snapshot::empty(), Some(ahead));
        self.servers[seat].set_replica(true);
        let span = self.rng.between(1_000, 300_000);
        self.follow(seat, of, span);
    }

    /// Sends the data of the followed server to a replica.
    fn send_parcel(&mut self, to: Seat) {
        let Some(from) = self.follows[to] else { return };
        let lag = self.rng.between(100, from.lag);
        let apart = self.apart_until(from.of, to);
        let last = (self.exec.now() + lag).max(from.last + 1).max(apart);
        self.follows[to] = Some(Following { last, ..from });
        let (stream, engine) = (from.stream, &self.servers[from.of].engine);
        let (effects, data) = (engine.effects(), engine.snapshot());
        self.at(last, move |net| net.apply(to, stream, effects, data));
    }

    /// Sends what a command has changed to the replicas, and remembers for a later `WAIT` on this
    /// connection what they have to confirm.
    pub(super) fn replicate(&mut self, node: usize, id: Option<ConnId>) {
        if self.group.replicas == 0 {
            return;
        }
        let engine = &self.servers[node].engine;
        let (effects, model) = (engine.effects(), engine.model());
        let changed = effects != std::mem::replace(&mut self.sent[node], effects);
        if let Some(id) = id
            && (changed || model < Model::Valkey9_1)
        {
            self.conns[id].written = effects;
        }
        if changed {
            let followers: Vec<_> = self.followers(node).map(|it| it.0).collect();
            followers.into_iter().for_each(|it| self.send_parcel(it));
        }
    }

    /// Gives a replica the data that have reached it.
    fn apply(&mut self, to: Seat, stream: u64, effects: u64, data: Snapshot) {
        if self.stopped[to].is_some() {
            return self.after(20_000, move |net| net.apply(to, stream, effects, data));
        }
        let Some(from) = self.follows[to] else { return };
        let (of, applied) = (from.of, Some(effects));
        if from.stream != stream || from.applied >= applied {
            return;
        }
        let lost = self.apart_until(of, to) > 0;
        let acked = if lost { from.acked } else { applied };
        self.follows[to] = Some(Following {
            applied,
            acked,
            ..from
        });
        self.servers[to].engine.restore(&data);
        for id in self.find(|link| link.node == of) {
            self.end_wait(id);
        }
    }

    /// Answers a `WAIT` and returns the pipeline, or keeps the pipeline until replicas have
    /// confirmed or the time of the `WAIT` is over.
    pub(super) fn wait(
        &mut self,
        id: ConnId,
        command: &Command,
        mut rest: Pipeline,
    ) -> Option<Pipeline> {
        let mut numbers = command.args().skip(1).map(|arg| {
            let text = std::str::from_utf8(arg).ok();
            text.and_then(|text| text.parse().ok()).unwrap_or(0_u64)
        });
        let (needed, millis) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let confirmed = self.confirmed(id);
        if confirmed >= needed {
            rest.confirm(confirmed);
            return Some(rest);
        }
        let until = self.exec.now() + millis * 1_000;
        self.at(until, move |net| net.end_wait(id));
        self.conns[id].waiting = Some(Waiting {
            needed,
            until,
            rest,
            queue: Vec::new(),
        });
        None
    }

    /// Goes on with a connection if enough replicas have confirmed, or if its time is over.
    fn end_wait(&mut self, id: ConnId) {
        let (now, confirmed) = (self.exec.now(), self.confirmed(id));
        let link = &mut self.conns[id];
        let ends = |it: &mut Waiting| confirmed >= it.needed || now >= it.until;
        let Some(mut waiting) = link.waiting.take_if(ends) else {
            return;
        };
        if self.stopped[link.node].is_some() {
            link.waiting = Some(waiting);
            return self.after(20_000, move |net| net.end_wait(id));
        }
        self.watch
            .say(|| format!("{confirmed} replicas have confirmed, on connection {id}"));
        waiting.rest.confirm(confirmed);
        for pipeline in [waiting.rest].into_iter().chain(waiting.queue) {
            self.go_on(id, pipeline);
        }
    }

    /// Returns the number of replicas that have confirmed all that was written on a connection.
    fn confirmed(&self, id: ConnId) -> u64 {
        let link = &self.conns[id];
        let written = match self.planted {
            Some(What::WaitsElsewhere) => 0,
            _ => link.written,
        };
        let replicas = self.followers(link.node);
        let confirmed = |follows: &Following| follows.acked >= Some(written);
        replicas.filter(|(_, it)| confirmed(it)).count() as u64
    }
}

impl Pipeline {
    /// Answers a `WAIT`.
    fn confirm(&mut self, replicas: u64) {
        let number = Value::Int(replicas.cast_signed());
        self.outcomes.push(Outcome::Replied(Ok(number)));
    }
}
