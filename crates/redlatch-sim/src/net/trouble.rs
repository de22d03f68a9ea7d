//! Faults of connections and servers.

use redlatch_core::runtime::Purpose;
use redlatch_embedded::engine::Snapshot;

use super::{ConnId, Downward, Net, State, Upward, link::Link};
use crate::{
    exec::ProcId,
    faults::{Fault, Faults},
    world::Event,
};

impl Net {
    /// Cuts a connection. A part of the data on the way still arrives, perhaps late; no reply does.
    pub fn cut(&self, id: ConnId, told: bool) {
        let mut state = self.state();
        let now = self.exec.now();
        let (way, open) = (state.conns[id].upward, state.conns[id].open);
        if !open || state.conns[id].severed {
            return;
        }
        // The oldest of the requests on the way may still arrive.
        let survivors = state.rng.between(0, way.sent - way.arrived);
        let late = if state.roll(Fault::LateBytes) {
            state.rng.between(1_000, 20_000_000)
        } else {
            0
        };
        if late > 0 && survivors > 0 {
            self.watch.fault(Fault::LateBytes, || {
                format!("bytes of connection {id} linger for {} ms", late / 1000)
            });
        }
        let mut delay = state.delay();
        if state.conns[id].purpose == Purpose::PubSub {
            // A client that only receives notices the end later, and misses the messages in
            // between.
            delay += state.rng.below(300_000);
            self.watch.unsubscribed(state.conns[id].proc);
        }
        let link = &mut state.conns[id];
        link.severed = true;
        link.upward.limit = Some(way.arrived + survivors);
        link.upward.hold(now + late);
        link.downward.hold(now);
        if told {
            self.exec.after(delay, Event::Down(id, Downward::Closed));
        }
        // The server notices the end 1 s after the last of them.
        let bye = link.upward.last + 1_000_000;
        self.exec.schedule(bye, Event::Up(id, Upward::Bye));
    }

    /// Delays all data on a connection for `span` µs, in one direction or both.
    pub fn stall(&self, id: ConnId, span: u64, up: bool, down: bool) {
        let mut state = self.state();
        let until = self.exec.now() + span;
        let link = &mut state.conns[id];
        if up {
            link.upward.hold(until);
        }
        if down {
            link.downward.hold(until);
        }
    }

    /// Ends the connections of a dead process. The kernel closes them; or the machine is gone too,
    /// and nothing closes them.
    pub fn forsake(&self, proc: ProcId, closed: bool) {
        let ids: Vec<_> = {
            let state = self.state();
            (0..state.conns.len())
                .filter(|&id| state.conns[id].proc == proc && state.conns[id].open)
                .collect()
        };
        for id in ids {
            if closed {
                self.close(id);
            } else {
                self.cut(id, false);
                self.shut(&mut self.state().conns[id]);
            }
        }
    }

    /// Stops a server, as SIGSTOP does.
    pub fn stop(&self, node: usize) {
        self.state().stopped[node] = true;
    }

    /// Resumes a server. Requests that have arrived meanwhile are served in order.
    pub fn resume(&self, node: usize) {
        let mut state = self.state();
        state.stopped[node] = false;
        while let Some((id, message)) = state.inbox[node].pop_front() {
            self.serve(&mut state, id, message);
        }
    }

    /// Restarts a server with the data of `snapshot`. All its connections break, and data on the
    /// way is lost.
    pub fn restart(&self, node: usize, snapshot: &Snapshot) {
        let mut state = self.state();
        state.servers[node].restart(snapshot, self.exec.now());
        let leads = state.masters.leads(node);
        state.servers[node].set_replica(!leads);
        self.disconnect(&mut state, node);
    }

    /// Replaces a server by another, whose clock is `ahead` µs ahead of the slowest. Clients that
    /// connect again reach the new one.
    pub fn replace(&self, node: usize, snapshot: &Snapshot, ahead: u64) {
        let mut state = self.state();
        state.servers[node].replace(snapshot, ahead, self.exec.now());
        self.disconnect(&mut state, node);
    }

    /// Breaks all connections of a server.
    pub(super) fn disconnect(&self, state: &mut State, node: usize) {
        state.inbox[node].clear();
        self.sever(state, |link| link.node == node, true);
    }

    /// Breaks connections. Their data on the way is lost, and clients may be told.
    pub(super) fn sever(&self, state: &mut State, hit: impl Fn(&Link) -> bool, told: bool) {
        for id in 0..state.conns.len() {
            if !hit(&state.conns[id]) {
                continue;
            }
            let delay = state.delay();
            let link = &mut state.conns[id];
            let (node, session) = (link.node, link.session.take());
            link.waiting = None;
            link.upward.limit = Some(link.upward.arrived);
            if told && link.open && !link.severed {
                self.exec.after(delay, Event::Down(id, Downward::Closed));
            }
            link.severed = true;
            if let Some(session) = session {
                state.servers[node].close(session);
            }
        }
    }

    /// Ends all faults: no data is delayed any more.
    pub fn heal(&self) {
        self.join();
        let mut state = self.state();
        state.faults = Faults::none(&state.faults);
        state.rights.heal();
        state.masters.heal(self.exec.now());
        self.end_move(&mut state);
        let now = self.exec.now();
        for link in &mut state.conns {
            if link.open {
                link.upward.held_until = now;
                link.downward.held_until = now;
            }
        }
        let nodes = state.servers.len();
        drop(state);
        self.settle();
        (0..nodes).for_each(|node| self.resume(node));
    }
}
