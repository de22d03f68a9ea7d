//! A replica takes over from a master that goes on answering.

use super::{
    Net,
    link::Link,
    masters::{Post, Seat},
};
use crate::plan::Finding;

/// A part of the servers and clients that cannot reach the rest.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The time at which all reach each other again.
    pub until: u64,
    /// Per server and sentinel, whether it is in the smaller part.
    pub minority: Vec<bool>,
    /// Per client, whether it reaches only the smaller part, with the former master, or only the
    /// larger one, with the new master; `None` if it reaches all servers.
    pub in_minority: Vec<Option<bool>>,
}

impl Net {
    /// Returns the present master of a shard.
    pub fn post(&self, shard: usize) -> Seat {
        self.posts[shard].seat
    }

    /// Returns the parts that cannot reach each other now.
    pub fn parted(&self) -> Option<&Apart> {
        let now = self.exec.now();
        self.apart.as_ref().filter(|apart| now < apart.until)
    }

    /// Returns the time from which two servers or sentinels reach each other; zero if they do.
    pub fn apart_until(&self, one: Seat, two: Seat) -> u64 {
        let apart = self.parted();
        let apart = apart.filter(|apart| apart.minority[one] != apart.minority[two]);
        apart.map_or(0, |apart| apart.until)
    }

    /// Returns the time from which a client reaches a server again; `None` if it does.
    pub(super) fn cut_off_until(&self, link: &Link) -> Option<u64> {
        let apart = self.parted()?;
        let minority = apart.in_minority[link.client]?;
        (minority != apart.minority[link.master]).then_some(apart.until)
    }

    fn cut_off(&self) -> Vec<usize> {
        self.find(|link| link.open && self.cut_off_until(link).is_some())
    }

    /// Holds up all that passes between two parts of the servers and clients.
    pub fn part(&mut self, apart: Apart) {
        let until = apart.until;
        self.apart = Some(apart);
        for id in self.cut_off() {
            self.conns[id].hold(until);
        }
    }

    /// Ends the separation. Connections that were cut off break.
    pub(super) fn join(&mut self) {
        for id in self.cut_off() {
            self.cut(id, true);
        }
        self.apart = None;
    }

    /// Appoints a replica as the master of a shard: any of those that have its data and are not in
    /// the minority, or the `best`, which has the most. Returns the appointment, if there is a
    /// replica.
    pub fn appoint(&mut self, shard: usize, best: bool) -> Option<Post> {
        let Post { epoch, seat } = self.posts[shard];
        let mut able = self.in_step(seat);
        if let Some(apart) = self.parted() {
            able.retain(|(other, _)| !apart.minority[*other]);
        }
        let &(seat, _) = match best {
            true => able.iter().max_by_key(|(_, applied)| *applied)?,
            false => self.rng.pick(&able)?,
        };
        let post = Post {
            epoch: epoch + 1,
            seat,
        };
        self.posts[shard] = post;
        Some(post)
    }

    /// Tells a server or a sentinel of an appointment. If `breaks`, a former master closes the
    /// connections of its clients.
    pub fn tell(&mut self, seat: Seat, shard: usize, post: Post, breaks: bool) {
        let led = self.leads(seat);
        let known = &mut self.known[seat][shard];
        if known.epoch >= post.epoch {
            return;
        }
        *known = post;
        let master = post.seat;
        self.watch
            .say(|| format!("server {seat} learns that {master} is the master of {shard}"));
        match self.group.shard_of(seat) {
            Some(own) if own == shard && seat == master => {
                self.servers[seat].set_replica(false);
                self.follows[seat] = None;
            }
            Some(own) if own == shard => {
                self.servers[seat].set_replica(true);
                let span = self.rng.between(1_000, 500_000);
                self.follow(seat, master, span);
                if led && breaks {
                    self.disconnect(seat);
                }
            }
            Some(_) => {}
            None => {
                // The message of a sentinel about a new master.
                let engine = &mut self.servers[seat].engine;
                engine.hear(b"+switch-master", b"main old 1 new 2");
                self.deliver(seat);
            }
        }
    }

    /// Lets all know who is in charge, and all replicas follow the masters without a lag.
    pub(super) fn settle(&mut self) {
        let group = self.group;
        for shard in 0..group.shards {
            let post = self.posts[shard];
            (0..group.all()).for_each(|seat| self.tell(seat, shard, post, false));
            for seat in group.seats(shard).filter(|&seat| seat != post.seat) {
                self.follow(seat, post.seat, 0);
            }
        }
    }

    /// Makes the replicas follow the first masters.
    pub(super) fn begin_to_follow(&mut self) {
        let group = self.group;
        for shard in 0..group.shards {
            let master = self.post(shard);
            for seat in group.seats(shard).skip(1) {
                self.servers[seat].set_replica(true);
                self.follow(seat, master, 1);
            }
        }
        if group.replicas > 0 && group.finding == Finding::Cluster {
            let engines = self.servers.iter_mut().map(|server| &mut server.engine);
            engines.for_each(|engine| engine.keep_messages());
        }
    }
}
