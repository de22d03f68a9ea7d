//! Takeovers from a master that goes on answering.

use super::{Event, World};
use crate::{
    faults::Fault,
    net::{Apart, Side},
    plan::Election,
    scenarios,
};

impl World {
    /// Lets a replica take over from a master soon. Until then, and for a while after, some servers
    /// and clients may not reach the rest.
    pub(super) fn depose(&mut self) {
        let shared = &self.shared;
        let shard = self.rng.index(shared.plan.group.shards);
        if shared.net.is_apart() {
            return;
        }
        self.swap_replicas(shard);
        let shared = &self.shared;
        let now = shared.exec.now();
        // An operator's takeover needs no time to find the master dead.
        let due = now
            + match shared.plan.servers_are_wild() {
                // Clients soon compare the clocks of new replicas.
                true => self.rng.between(400_000, 900_000),
                false if self.rng.chance(500) => self.rng.between(1_000, 500_000),
                false => self.rng.between(1_000, 5_000_000),
            };
        let until = due + self.rng.between(1_000, shared.plan.lease * 3_000);
        let best = shared.plan.election == Election::Best;
        let apart = (best || self.rng.chance(700)).then(|| self.draw_parts(shard, until));
        self.shared.watch.fault(Fault::TwoMasters, || {
            let span = (due - now) / 1_000;
            format!("a replica takes over shard {shard} in {span} ms: {apart:?}")
        });
        if let Some(apart) = apart {
            self.shared.net.part(apart);
        }
        self.shared.exec.schedule(due, Event::Appoint(shard));
    }

    /// Replaces the replicas of a shard in some cases, if servers differ at all.
    fn swap_replicas(&mut self, shard: usize) {
        let shared = &self.shared;
        let most = shared.plan.servers_differ * 1_000;
        if most == 0 || !shared.plan.servers_are_wild() && self.rng.chance(300) {
            return;
        }
        let master = shared.net.post(shard);
        let replicas = shared.plan.group.seats(shard);
        for seat in replicas.filter(|&seat| seat != master) {
            let ahead = scenarios::draw_clock(&mut self.rng, most);
            shared.net.swap(seat, master, ahead);
        }
    }

    /// Draws the servers and clients that cannot reach the rest.
    fn draw_parts(&mut self, shard: usize, until: u64) -> Apart {
        let plan = &self.shared.plan;
        let group = plan.group;
        let master = self.shared.net.post(shard);
        let mut minority = vec![false; group.all()];
        minority[master] = true;
        if plan.election == Election::Any {
            let others = (0..group.servers()).filter(|&seat| seat != master);
            for seat in others {
                // One replica stays with the majority.
                let last = group.shard_of(seat) == Some(shard)
                    && group.seats(shard).filter(|&seat| !minority[seat]).count() == 1;
                minority[seat] = !last && self.rng.chance(250);
            }
        }
        if group.sentinels > 0 && self.rng.chance(500) {
            minority[group.servers() + self.rng.index(group.sentinels)] = true;
        }
        let split = self.rng.chance(700);
        let sides = (0..plan.clients).map(|_| match self.rng.below(3) {
            0 if split => Side::Minority,
            1 if split => Side::Majority,
            _ => Side::Both,
        });
        Apart {
            until,
            minority,
            sides: sides.collect(),
        }
    }

    /// Lets a replica take over, which servers and sentinels learn at different times.
    pub(super) fn appoint(&mut self, shard: usize) {
        let shared = &self.shared;
        if shared.is_healed() {
            return;
        }
        let former = shared.net.post(shard);
        let Some(post) = shared.net.appoint(shard, shared.plan.election) else {
            return;
        };
        shared
            .watch
            .say(|| format!("server {} takes over shard {shard}", post.seat));
        shared.net.tell(post.seat, shard, post, false);
        let now = shared.exec.now();
        let group = shared.plan.group;
        let best = shared.plan.election == Election::Best;
        for seat in (0..group.all()).filter(|&seat| seat != post.seat) {
            // The master that has the most goes on with it only if no other replica confirms what
            // the former master does.
            let most = match group.shard_of(seat) {
                _ if seat == former => shared.plan.lease * 3_000,
                Some(other) if other == shard && best => 1,
                _ => 2_000_000,
            };
            let at = (now + self.rng.below(most)).max(shared.net.hears_from(post.seat, seat));
            let told = Event::Told(seat, shard, post, self.rng.chance(500));
            shared.exec.schedule(at, told);
        }
    }
}
