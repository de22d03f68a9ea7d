//! A replica takes over from a master that goes on answering.

use super::{
    Net, State,
    masters::{Post, Seat},
};
use crate::plan::{Election, Finding};

/// A part of the servers and clients that cannot reach the rest.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The time at which all reach each other again.
    pub until: u64,
    /// Per server and sentinel, whether it is in the smaller part.
    pub minority: Vec<bool>,
    /// Per client, which part it reaches.
    pub sides: Vec<Side>,
}

/// The part of the servers that a client reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The smaller part, with the former master.
    Minority,
    /// The larger part, with the new master.
    Majority,
    /// All servers.
    Both,
}

impl Apart {
    fn reaches(&self, client: usize, seat: Seat) -> bool {
        match self.sides[client] {
            Side::Both => true,
            Side::Minority => self.minority[seat],
            Side::Majority => !self.minority[seat],
        }
    }
}

impl State {
    /// Returns the parts that cannot reach each other now.
    fn parted(&self, now: u64) -> Option<&Apart> {
        self.apart.as_ref().filter(|apart| now < apart.until)
    }

    /// Returns the time from which two servers reach each other; zero if they do.
    pub(super) fn apart_until(&self, one: Seat, two: Seat, now: u64) -> u64 {
        let apart = self.parted(now);
        let apart = apart.filter(|apart| apart.minority[one] != apart.minority[two]);
        apart.map_or(0, |apart| apart.until)
    }

    /// Returns the time from which a client reaches a server again; `None` if it does.
    pub(super) fn cut_off_until(&self, client: usize, seat: Seat, now: u64) -> Option<u64> {
        let apart = self.parted(now)?;
        (!apart.reaches(client, seat)).then_some(apart.until)
    }

    fn cut_off(&self, now: u64) -> Vec<usize> {
        let cut_off = |id: &usize| {
            let link = &self.conns[*id];
            link.open && self.cut_off_until(link.client, link.master, now).is_some()
        };
        (0..self.conns.len()).filter(cut_off).collect()
    }
}

impl Net {
    /// Returns the present master of a shard.
    pub fn post(&self, shard: usize) -> Seat {
        self.state().masters.posts[shard].seat
    }

    /// Tells whether a part of the servers and clients cannot reach the rest.
    pub fn is_apart(&self) -> bool {
        self.state().parted(self.exec.now()).is_some()
    }

    /// Returns the time from which a server or a sentinel hears from a master.
    pub fn hears_from(&self, master: Seat, seat: Seat) -> u64 {
        self.state().apart_until(master, seat, self.exec.now())
    }

    /// Holds up all that passes between two parts of the servers and clients.
    pub fn part(&self, apart: Apart) {
        let until = apart.until;
        let mut state = self.state();
        state.apart = Some(apart);
        for id in state.cut_off(self.exec.now()) {
            state.conns[id].upward.hold(until);
            state.conns[id].downward.hold(until);
        }
    }

    /// Ends the separation. Connections that were cut off break.
    pub(super) fn join(&self) {
        let cut_off = {
            let state = self.state();
            state.cut_off(self.exec.now())
        };
        for id in cut_off {
            self.cut(id, true);
        }
        self.state().apart = None;
    }

    /// Appoints a replica as the master of a shard: any of those that have its data and are not in
    /// the minority, or the one that has the most. Returns the appointment, if there is a replica.
    pub fn appoint(&self, shard: usize, election: Election) -> Option<Post> {
        let mut state = self.state();
        let now = self.exec.now();
        let Post { epoch, seat } = state.masters.posts[shard];
        let mut able = state.replicas.in_step(seat);
        if let Some(apart) = state.parted(now) {
            able.retain(|(other, _)| !apart.minority[*other]);
        }
        let (seat, _) = match election {
            Election::Best => able.into_iter().max_by_key(|(_, applied)| *applied)?,
            Election::Any if able.is_empty() => return None,
            Election::Any => able[state.rng.index(able.len())],
        };
        let post = Post {
            epoch: epoch + 1,
            seat,
        };
        state.masters.posts[shard] = post;
        Some(post)
    }

    /// Tells a server or a sentinel of an appointment. If `breaks`, a former master closes the
    /// connections of its clients.
    pub fn tell(&self, seat: Seat, shard: usize, post: Post, breaks: bool) {
        let mut state = self.state();
        let led = state.masters.leads(seat);
        if !state.masters.learn(seat, shard, post) {
            return;
        }
        self.watch.say(|| {
            format!(
                "server {seat} learns that {} is the master of {shard}",
                post.seat
            )
        });
        if state.masters.group.shard_of(seat) == Some(shard) {
            self.take_role(&mut state, seat, post.seat, led && breaks);
        } else if state.masters.group.shard_of(seat).is_none() {
            self.announce(&mut state, seat);
        }
    }

    fn take_role(&self, state: &mut State, seat: Seat, master: Seat, breaks: bool) {
        state.servers[seat].set_replica(seat != master);
        if seat == master {
            return state.replicas.leads(seat);
        }
        let span = state.rng.between(1_000, 500_000);
        self.follow(state, seat, master, span);
        if breaks {
            self.disconnect(state, seat);
        }
    }

    /// Sends the message of a sentinel about a new master.
    fn announce(&self, state: &mut State, sentinel: Seat) {
        state.servers[sentinel].hear(b"+switch-master", b"main old 1 new 2");
        self.deliver(state, sentinel);
    }

    /// Lets all know who is in charge, and all replicas follow the masters without a lag.
    pub(super) fn settle(&self) {
        let (group, posts) = {
            let state = self.state();
            (state.masters.group, state.masters.posts.clone())
        };
        for (shard, &post) in posts.iter().enumerate() {
            (0..group.all()).for_each(|seat| self.tell(seat, shard, post, false));
            for seat in group.seats(shard).filter(|&seat| seat != post.seat) {
                self.follow(&mut self.state(), seat, post.seat, 0);
            }
        }
    }

    /// Makes the replicas follow the first masters.
    pub(super) fn begin_to_follow(&self) {
        let mut state = self.state();
        let group = state.masters.group;
        for shard in 0..group.shards {
            let master = group.seats(shard).start;
            for seat in group.seats(shard).skip(1) {
                state.servers[seat].set_replica(true);
                self.follow(&mut state, seat, master, 1);
            }
        }
        if group.replicas > 0 && group.finding == Finding::Cluster {
            state.servers.iter_mut().for_each(|it| it.keep_messages());
        }
    }
}
