//! The timed faults.

use std::sync::Arc;

use redlatch_embedded::engine::Snapshot;

use super::World;
use crate::{faults::Fault, names::label, net::Death, watch};

impl World {
    pub(super) fn schedule_nemesis(&mut self) {
        let gap = self.rng.between(1_000, self.shared.faults.mean_gap * 2);
        self.shared.exec.after(gap, |world| {
            if !world.shared.is_healed() {
                world.strike();
                world.schedule_nemesis();
            }
        });
    }

    /// Injects one of the timed faults.
    fn strike(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(fault) = shared.faults.next_timed(&mut self.rng) else {
            return;
        };
        let nodes = shared.plan.servers();
        let node = if nodes > 1 { self.rng.index(nodes) } else { 0 };
        match fault {
            Fault::Cut | Fault::HalfOpen | Fault::PubSubCut | Fault::Stall => {
                self.strike_connection(fault);
            }
            Fault::Pause | Fault::Crash | Fault::Kill | Fault::PowerLoss => {
                self.strike_client(fault);
            }
            Fault::LossyFailover | Fault::OldSnapshot | Fault::PlannedFailover => {
                self.take_over(fault);
            }
            Fault::MasterDown => self.lose_master(),
            Fault::TwoMasters => self.depose(),
            Fault::SlotMove => self.move_slot(),
            Fault::ForgedCall | Fault::ForgedOpening => {
                if let Some(said) = shared.net().forge(fault) {
                    shared.watch.fault(fault, || said);
                }
            }
            _ => self.strike_server(fault, node),
        }
    }

    /// Lets one master of a cluster die for a while. Another takes over from it only if it has a
    /// replica, and it has none.
    fn lose_master(&mut self) {
        let shared = &self.shared;
        let master = self.rng.index(shared.plan.group.shards);
        let span = self.rng.between(500_000, 15_000_000);
        let death = match self.rng.chance(500) {
            true => Death::Process,
            false => Death::Machine,
        };
        if shared.net().lose_master(master, death, span) {
            shared.watch.fault(Fault::MasterDown, || {
                let span = span / 1000;
                format!("master {master} is dead for {span} ms ({death:?})")
            });
        }
    }

    /// Lets the slot of a name move to another master, unless one moves already.
    fn move_slot(&mut self) {
        let shared = &self.shared;
        let name = self.rng.index(shared.plan.names);
        if let Some(to) = shared.net().begin_move(name) {
            shared.watch.fault(Fault::SlotMove, || {
                format!("the slot of {} moves to master {to}", label(name))
            });
        }
    }

    /// Injects a fault of one server.
    fn strike_server(&mut self, fault: Fault, node: usize) {
        let shared = &self.shared;
        let (mut net, longest) = (shared.net(), shared.plan.lease * 2000);
        let tell = |text: String| shared.watch.fault(fault, || text);
        let forgot = |what: &str| {
            tell(format!("the server {what}"));
            shared.watch.notes(watch::Event::Forgot { copy: None });
        };
        match fault {
            Fault::ScriptFlush => {
                tell(format!("server {node} forgets its scripts"));
                net.servers[node].engine.flush_scripts();
            }
            Fault::ServerStop => {
                let span = self.rng.between(1_000, longest);
                tell(format!("server {node} stands still for {} ms", span / 1000));
                net.stop(node, span);
            }
            // One of several servers may forget its grants; the other servers compensate for that.
            Fault::Restart if shared.plan.nodes() > 1 && self.rng.chance(500) => {
                tell(format!("server {node} restarts without its data"));
                shared.watch.notes(watch::Event::OneForgot);
                net.restart(node, &Snapshot::empty(), None);
            }
            Fault::Restart => {
                tell(format!("server {node} restarts with its data"));
                let data = net.servers[node].engine.snapshot();
                net.restart(node, &data, None);
            }
            Fault::EmptyRestart => {
                forgot("restarts without its data");
                net.restart(node, &Snapshot::empty(), None);
            }
            Fault::FlushAll => {
                forgot("forgets its data");
                net.servers[node].engine.restore(&Snapshot::empty());
            }
            Fault::Refusal => {
                let span = self.rng.between(300_000, 2_000_000);
                let releases = self.rng.chance(500);
                let what = if releases { "releases" } else { "all scripts" };
                tell(format!("the server refuses {what} for {} ms", span / 1000));
                net.refuse(node, span, releases);
            }
            Fault::ClockStep => {
                let span = self.rng.between(50_000, longest).cast_signed();
                let span = if self.rng.chance(300) { -span } else { span };
                tell(format!("the server's clock is set by {} ms", span / 1000));
                net.servers[node].stepped += span;
            }
            _ => {}
        }
    }

    /// Lets another server take over: with all data, without the latest writes, or with old data.
    pub(super) fn take_over(&mut self, fault: Fault) {
        let shared = Arc::clone(&self.shared);
        // The copies are those of the first server.
        let (what, copy) = match fault {
            Fault::LossyFailover => ("loses its last writes", self.copies.first().cloned()),
            Fault::OldSnapshot => ("forgets up to 3 s", self.apart.pick(&self.old).cloned()),
            _ => {
                let data = shared.net().servers[0].engine.snapshot();
                ("forgets nothing", Some((0, data)))
            }
        };
        let text = || format!("the server fails over and {what}");
        shared.watch.fault(fault, text);
        let Some((copy, data)) = copy else { return };
        if fault != Fault::PlannedFailover {
            let copy = Some(copy);
            shared.watch.notes(watch::Event::Forgot { copy });
        }
        self.succeed(&data);
    }

    /// Makes one of the other servers the active one, with these data and its own clock.
    fn succeed(&mut self, data: &Snapshot) {
        let successors = &self.shared.plan.successors;
        let others = successors.len() - 1;
        if others > 0 {
            self.in_charge += 1 + self.apart.index(others);
        }
        let ahead = successors[self.in_charge % successors.len()];
        if others > 0 {
            let watch = &self.shared.watch;
            watch.say(|| format!("the clock of the server in charge is {ahead} µs ahead"));
        }
        self.shared.net().restart(0, data, Some(ahead));
    }

    fn strike_connection(&mut self, fault: Fault) {
        let shared = &self.shared;
        let conns = shared.net().open_conns(fault == Fault::PubSubCut);
        let Some(&conn) = self.rng.pick(&conns) else {
            return;
        };
        if fault == Fault::Stall {
            let span = self.rng.between(1_000, 6_000_000);
            let (up, down, way) = match self.rng.below(3) {
                0 => (true, true, "both ways"),
                1 => (true, false, "to the server"),
                _ => (false, true, "to the client"),
            };
            shared.watch.fault(fault, || {
                let millis = span / 1000;
                format!("connection {conn} holds up what it carries for {millis} ms ({way})")
            });
            return shared.net().stall(conn, span, up, down);
        }
        shared
            .watch
            .fault(fault, || format!("connection {conn} breaks"));
        shared.net().cut(conn, fault != Fault::HalfOpen);
    }

    fn strike_client(&mut self, fault: Fault) {
        let shared = &self.shared;
        let client = self.rng.index(self.procs.len());
        let Some(proc) = self.procs[client] else {
            return;
        };
        let span = self.rng.between(1_000, shared.plan.lease * 3000);
        let pauses = fault == Fault::Pause;
        shared.watch.fault(fault, || {
            let what = match pauses {
                true => "is not scheduled for",
                false => "dies; it comes back after",
            };
            format!("c{client} {what} {} ms", span / 1000)
        });
        if pauses {
            shared.exec.pause(proc);
            let resume = move |world: &mut Self| world.shared.exec.resume(proc);
            return shared.exec.after(span, resume);
        }
        self.procs[client] = None;
        shared.watch.died(proc);
        shared.exec.kill(proc, fault == Fault::Crash);
        shared.net().forsake(proc, fault != Fault::PowerLoss);
        let rebirth = move |world: &mut Self| world.give_birth(client);
        shared.exec.after(span, rebirth);
    }
}
