//! Takeovers from a master that goes on answering.

use super::World;
use crate::{faults::Fault, net::Apart, scenarios};

impl World {
    /// Lets a replica take over from a master soon. Until then, and for a while after, some servers
    /// and clients may not reach the rest.
    pub(super) fn depose(&mut self) {
        let shard = self.rng.index(self.shared.plan.group.shards);
        if self.shared.net().parted().is_some() {
            return;
        }
        self.swap_replicas(shard);
        let (now, plan) = (self.shared.exec.now(), &self.shared.plan);
        // An operator's takeover needs no time to find the master dead.
        let span = match plan.servers_are_wild() {
            // Clients soon compare the clocks of new replicas.
            true => self.rng.between(400_000, 900_000),
            false if self.rng.chance(500) => self.rng.between(1_000, 500_000),
            false => self.rng.between(1_000, 5_000_000),
        };
        let until = now + span + self.rng.between(1_000, plan.lease * 3_000);
        let apart = (plan.best || self.rng.chance(700)).then(|| self.draw_parts(shard, until));
        self.shared.watch.fault(Fault::TwoMasters, || {
            let span = span / 1_000;
            format!("a replica takes over shard {shard} in {span} ms: {apart:?}")
        });
        if let Some(apart) = apart {
            self.shared.net().part(apart);
        }
        let appoint = move |world: &mut Self| world.appoint(shard);
        self.shared.exec.after(span, appoint);
    }

    /// Replaces the replicas of a shard in some cases, if servers differ at all.
    fn swap_replicas(&mut self, shard: usize) {
        let plan = &self.shared.plan;
        let most = plan.servers_differ * 1_000;
        if most == 0 || !plan.servers_are_wild() && self.rng.chance(300) {
            return;
        }
        let mut net = self.shared.net();
        let master = net.post(shard);
        for seat in plan.group.seats(shard).filter(|&seat| seat != master) {
            let ahead = scenarios::draw_clock(&mut self.rng, most);
            net.swap(seat, master, ahead);
        }
    }

    /// Draws the servers and clients that cannot reach the rest.
    fn draw_parts(&mut self, shard: usize, until: u64) -> Apart {
        let plan = &self.shared.plan;
        let group = plan.group;
        let master = self.shared.net().post(shard);
        let mut minority = vec![false; group.all()];
        minority[master] = true;
        if !plan.best {
            for seat in (0..group.servers()).filter(|&seat| seat != master) {
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
            0 if split => Some(true),
            1 if split => Some(false),
            _ => None,
        });
        Apart {
            until,
            minority,
            in_minority: sides.collect(),
        }
    }

    /// Lets a replica take over, which servers and sentinels learn at different times.
    fn appoint(&mut self, shard: usize) {
        let shared = &self.shared;
        if shared.is_healed() {
            return;
        }
        let mut net = shared.net();
        let (former, group) = (net.post(shard), shared.plan.group);
        let best = shared.plan.best;
        let Some(post) = net.appoint(shard, best) else {
            return;
        };
        shared
            .watch
            .say(|| format!("server {} takes over shard {shard}", post.seat));
        net.tell(post.seat, shard, post, false);
        let now = shared.exec.now();
        for seat in (0..group.all()).filter(|&seat| seat != post.seat) {
            // The master that has the most goes on with it only if no other replica confirms what
            // the former master does.
            let most = match group.shard_of(seat) {
                _ if seat == former => shared.plan.lease * 3_000,
                Some(other) if other == shard && best => 1,
                _ => 2_000_000,
            };
            let at = (now + self.rng.below(most)).max(net.apart_until(post.seat, seat));
            let breaks = self.rng.chance(500);
            let tell = move |world: &mut Self| world.net().tell(seat, shard, post, breaks);
            shared.exec.schedule(at, tell);
        }
    }
}
