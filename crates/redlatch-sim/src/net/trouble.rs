//! Faults of connections and servers.

use std::collections::VecDeque;

use redlatch_embedded::engine::Snapshot;

use super::{ConnId, Downward, Net, Upward, link::Link};
use crate::{exec::ProcId, faults::Faults};

impl Net {
    /// Cuts a connection. A part of the data on the way still arrives, perhaps late; no reply does.
    pub fn cut(&mut self, id: ConnId, told: bool) {
        let now = self.exec.now();
        let link = &self.conns[id];
        let (way, pubsub) = (link.upward, link.pubsub);
        if !link.open || link.severed {
            return;
        }
        // The oldest of the requests on the way may still arrive.
        let survivors = self.rng.between(0, way.sent - way.arrived);
        let late = self.draw_lag(id, survivors > 0);
        let mut delay = self.delay();
        if pubsub {
            // A client that only receives notices the end later, and misses the messages in
            // between.
            delay += self.rng.below(300_000);
            self.watch.hears(self.conns[id].proc, false);
        }
        let link = &mut self.conns[id];
        link.severed = true;
        link.upward.limit = Some(way.arrived + survivors);
        link.upward.hold(now + late);
        link.downward.hold(now);
        // The server notices the end 1 s after the last of them.
        let bye = link.upward.last + 1_000_000;
        if told {
            self.after(delay, move |net| net.arrive_down(id, Downward::Closed));
        }
        self.at(bye, move |net| net.arrive_up(id, Upward::Bye));
    }

    /// Delays all data on a connection for `span` µs, in one direction or both.
    pub fn stall(&mut self, id: ConnId, span: u64, up: bool, down: bool) {
        let until = self.exec.now() + span;
        let link = &mut self.conns[id];
        if up {
            link.upward.hold(until);
        }
        if down {
            link.downward.hold(until);
        }
    }

    /// Ends the connections of a dead process. The kernel closes them; or the machine is gone too,
    /// and nothing closes them.
    pub fn forsake(&mut self, proc: ProcId, closed: bool) {
        for id in self.find(|link| link.proc == proc && link.open) {
            if closed {
                self.close(id);
            } else {
                self.cut(id, false);
                self.shut(id);
            }
        }
    }

    /// Stops a server for `span` µs, as SIGSTOP does.
    pub fn stop(&mut self, node: usize, span: u64) {
        self.stopped[node].get_or_insert_with(VecDeque::new);
        self.after(span, move |net| {
            net.watch.say(|| format!("server {node} goes on"));
            net.resume(node);
        });
    }

    /// Resumes a server. Requests that have arrived meanwhile are served in order.
    fn resume(&mut self, node: usize) {
        for (id, message) in self.stopped[node].take().into_iter().flatten() {
            self.serve(id, message);
        }
    }

    /// Restarts a server with the data of `snapshot`, or replaces it by another, whose clock is
    /// `ahead` µs ahead of the slowest. All its connections break, and data on the way is lost.
    pub fn restart(&mut self, node: usize, snapshot: &Snapshot, ahead: Option<u64>) {
        let leads = self.leads(node);
        let server = &mut self.servers[node];
        server.restart(snapshot, ahead, self.exec.now());
        server.set_replica(!leads);
        self.disconnect(node);
    }

    /// Breaks all connections of a server.
    pub(super) fn disconnect(&mut self, node: usize) {
        if let Some(inbox) = &mut self.stopped[node] {
            inbox.clear();
        }
        self.sever(|link| link.node == node, true);
    }

    /// Breaks connections. Their data on the way is lost, and clients may be told.
    pub(super) fn sever(&mut self, hit: impl Fn(&Link) -> bool, told: bool) {
        for id in self.find(hit) {
            let delay = self.delay();
            let link = &mut self.conns[id];
            link.upward.limit = Some(link.upward.arrived);
            let severed = std::mem::replace(&mut link.severed, true);
            if told && link.open && !severed {
                self.after(delay, move |net| net.arrive_down(id, Downward::Closed));
            }
            self.forget(id);
        }
    }

    /// Ends all faults: no data is delayed any more.
    pub fn heal(&mut self) {
        self.join();
        let now = self.exec.now();
        self.faults = Faults::none(&self.faults);
        self.lacks.clear();
        self.revive();
        self.end_move();
        for link in self.conns.iter_mut().filter(|link| link.open) {
            (link.upward.held_until, link.downward.held_until) = (now, now);
        }
        self.settle();
        (0..self.servers.len()).for_each(|node| self.resume(node));
    }
}
