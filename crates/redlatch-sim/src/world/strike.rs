//! The timed faults.

use std::sync::Arc;

use redlatch_embedded::engine::Snapshot;

use super::{Event, World};
use crate::{exec, faults::Fault, names::label, net::Death, watch};

impl World {
    pub(super) fn schedule_nemesis(&mut self) {
        let gap = self.rng.between(1_000, self.shared.faults.mean_gap * 2);
        self.shared.exec.after(gap, Event::Nemesis);
    }

    /// Injects one of the timed faults.
    pub(super) fn strike(&mut self) {
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
                if let Some(said) = shared.net.forge(fault) {
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
        if shared.net.lose_master(master, death) {
            shared.watch.fault(Fault::MasterDown, || {
                let span = span / 1000;
                format!("master {master} is dead for {span} ms ({death:?})")
            });
            let back = Event::MasterReturns(master);
            shared.exec.after(span, back);
        }
    }

    /// Lets the slot of a name move to another master, unless one moves already.
    fn move_slot(&mut self) {
        let shared = &self.shared;
        let name = self.rng.index(shared.plan.names);
        if let Some(to) = shared.net.begin_move(name) {
            shared.watch.fault(Fault::SlotMove, || {
                format!("the slot of {} moves to master {to}", label(name))
            });
            shared.exec.after(0, Event::MoveOn);
        }
    }

    /// Injects a fault of one server.
    fn strike_server(&mut self, fault: Fault, node: usize) {
        let shared = Arc::clone(&self.shared);
        let tell = |text: String| shared.watch.fault(fault, || text);
        match fault {
            Fault::ScriptFlush => {
                tell(format!("server {node} forgets its scripts"));
                shared.net.state().servers[node].flush_scripts();
            }
            Fault::ServerStop => {
                let span = self.rng.between(1_000, shared.plan.lease * 2000);
                tell(format!("server {node} stands still for {} ms", span / 1000));
                shared.net.stop(node);
                shared.exec.after(span, Event::ServerResumes(node));
            }
            Fault::Restart => {
                // One of several servers may forget its grants; the other servers compensate for
                // that.
                if shared.plan.nodes() > 1 && self.rng.chance(500) {
                    tell(format!("server {node} restarts without its data"));
                    shared.watch.notes(watch::Event::OneForgot);
                    return shared.net.restart(node, &Snapshot::empty());
                }
                tell(format!("server {node} restarts with its data"));
                let data = shared.net.state().servers[node].snapshot();
                shared.net.restart(node, &data);
            }
            Fault::EmptyRestart => {
                tell("the server restarts without its data".to_owned());
                shared.watch.notes(watch::Event::Forgot { copy: None });
                shared.net.restart(node, &Snapshot::empty());
            }
            Fault::FlushAll => {
                tell("the server forgets its data".to_owned());
                shared.watch.notes(watch::Event::Forgot { copy: None });
                shared.net.state().servers[node].restore(&Snapshot::empty());
            }
            Fault::Refusal => {
                let span = self.rng.between(300_000, 2_000_000);
                let releases = self.rng.chance(500);
                let what = if releases { "releases" } else { "all scripts" };
                tell(format!("the server refuses {what} for {} ms", span / 1000));
                shared.net.refuse(node, span, releases);
            }
            Fault::ClockStep => {
                let span = self
                    .rng
                    .between(50_000, shared.plan.lease * 2000)
                    .cast_signed();
                let span = if self.rng.chance(300) { -span } else { span };
                tell(format!("the server's clock is set by {} ms", span / 1000));
                shared.net.state().servers[node].step_clock(span);
            }
            _ => {}
        }
    }

    /// Lets another server take over: with all data, without the latest writes, or with old data.
    pub(super) fn take_over(&mut self, fault: Fault) {
        let shared = Arc::clone(&self.shared);
        let tell = |text: &str| shared.watch.fault(fault, || text.to_owned());
        // The copies are those of the first server.
        let copy = match fault {
            Fault::LossyFailover => {
                tell("the server fails over and loses its last writes");
                self.copies.first()
            }
            Fault::OldSnapshot => {
                tell("the server fails over and forgets up to 3 s");
                self.old.get(self.apart.index(self.old.len()))
            }
            _ => {
                tell("the server fails over and forgets nothing");
                let data = shared.net.state().servers[0].snapshot();
                return self.succeed(&data);
            }
        };
        if let Some(copy) = copy {
            let number = Some(copy.number);
            shared.watch.notes(watch::Event::Forgot { copy: number });
            let data = copy.data.clone();
            self.succeed(&data);
        }
    }

    /// Makes one of the other servers the active one, with these data and its own clock.
    fn succeed(&mut self, data: &Snapshot) {
        let successors = &self.shared.plan.successors;
        let ahead = match successors.len() {
            1 => successors[0],
            len => {
                let other = 1 + self.apart.index(len - 1);
                self.in_charge = (self.in_charge + other) % len;
                let ahead = successors[self.in_charge];
                let watch = &self.shared.watch;
                watch.say(|| format!("the clock of the server in charge is {ahead} µs ahead"));
                ahead
            }
        };
        self.shared.net.replace(0, data, ahead);
    }

    fn strike_connection(&mut self, fault: Fault) {
        let shared = Arc::clone(&self.shared);
        let conns = shared.net.open_conns(fault == Fault::PubSubCut);
        if conns.is_empty() {
            return;
        }
        let conn = conns[self.rng.index(conns.len())];
        if fault == Fault::Stall {
            let span = self.rng.between(1_000, 6_000_000);
            let which = self.rng.below(3);
            let way = match which {
                0 => "both ways",
                1 => "to the server",
                _ => "to the client",
            };
            shared.watch.fault(fault, || {
                let millis = span / 1000;
                format!("connection {conn} holds up what it carries for {millis} ms ({way})")
            });
            shared.net.stall(conn, span, which != 2, which != 1);
            return;
        }
        shared
            .watch
            .fault(fault, || format!("connection {conn} breaks"));
        shared.net.cut(conn, fault != Fault::HalfOpen);
    }

    fn strike_client(&mut self, fault: Fault) {
        let shared = Arc::clone(&self.shared);
        let client = self.rng.index(self.procs.len());
        let Some(proc) = self.procs[client] else {
            return;
        };
        let longest = shared.plan.lease * 3000;
        if fault == Fault::Pause {
            let span = self.rng.between(1_000, longest);
            shared.watch.fault(fault, || {
                format!("c{client} is not scheduled for {} ms", span / 1000)
            });
            shared.exec.pause(proc);
            shared.exec.after(span, Event::Resume(proc));
            return;
        }
        let away = self.rng.between(1_000, longest);
        shared.watch.fault(fault, || {
            format!("c{client} dies; it comes back after {} ms", away / 1000)
        });
        self.procs[client] = None;
        shared.watch.died(proc);
        let death = if fault == Fault::Crash {
            exec::Death::Unwound
        } else {
            exec::Death::Killed
        };
        shared.exec.kill(proc, death);
        shared.net.forsake(proc, fault != Fault::PowerLoss);
        shared.exec.after(away, Event::Rebirth(client));
    }
}
