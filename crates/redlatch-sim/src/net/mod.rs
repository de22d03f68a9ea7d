//! The network: connections that keep order, delay data and break, and the requests that reach a
//! server.
//!
//! A live connection never repeats, drops or reorders a message. When it breaks or is closed,
//! messages on the way may arrive in part, or much later. The replies to them are lost.

mod forgery;
mod link;
mod masters;
mod moving;
mod refusals;
mod replicas;
mod serve;
mod takeover;
mod transport;
mod trouble;

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use redlatch_core::runtime::{Command, Purpose, Push};

use self::{forgery::Heard, link::Link, masters::Masters, refusals::Rights, replicas::Replicas};
pub use self::{
    link::{ConnId, Downward, Upward},
    masters::{Death, Post, Seat},
    replicas::Parcel,
    serve::Copy,
    takeover::{Apart, Side},
    transport::{SimTransport, address_of, addresses},
};
use crate::{
    exec::{Exec, lock},
    faults::{Fault, Faults},
    mutants::What,
    plan::Group,
    rng::Rng,
    server::Server,
    watch::Watch,
    world::Event,
};

/// All connections, and their servers.
pub struct Net {
    exec: Arc<Exec>,
    state: Mutex<State>,
    watch: Arc<Watch>,
}

/// The state that the lock of the network protects.
#[derive(Debug)]
pub struct State {
    rng: Rng,
    conns: Vec<Link>,
    /// The servers, which are independent of each other; most kinds use one.
    pub servers: Vec<Server>,
    /// The rates of the faults; zero once the run is healed.
    pub faults: Faults,
    stopped: Vec<bool>,
    /// The messages that reached each server while it was stopped.
    inbox: Vec<VecDeque<(ConnId, Upward)>>,
    /// Who is in charge of what.
    masters: Masters,
    /// What the replicas follow.
    replicas: Replicas,
    /// A part of the servers and clients that cannot reach the rest.
    apart: Option<Apart>,
    /// The permissions that users lack on the servers.
    rights: Rights,
    /// The recorded messages from which others are forged.
    heard: Heard,
    planted: Option<What>,
}

impl Net {
    /// Creates a network with these servers.
    pub fn new(
        exec: Arc<Exec>,
        rng: Rng,
        servers: Vec<Server>,
        group: Group,
        faults: Faults,
        planted: Option<What>,
        watch: Arc<Watch>,
    ) -> Arc<Self> {
        let net = Arc::new(Self {
            exec,
            state: Mutex::new(State {
                rng,
                conns: Vec::new(),
                faults,
                stopped: vec![false; servers.len()],
                inbox: servers.iter().map(|_| VecDeque::new()).collect(),
                masters: Masters::new(group),
                replicas: Replicas::new(servers.len()),
                apart: None,
                rights: Rights::default(),
                heard: Heard::default(),
                planted,
                servers,
            }),
            watch,
        });
        net.begin_to_follow();
        net
    }

    /// Locks and returns the state, with servers and faults.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Handles a message that has reached the server.
    pub fn arrive_up(&self, id: ConnId, message: Upward) {
        let mut state = self.state();
        let link = &mut state.conns[id];
        let until = link.upward.held_until;
        if self.exec.now() < until {
            return self.exec.schedule(until, Event::Up(id, message));
        }
        link.upward.arrived += 1;
        let beyond = link
            .upward
            .limit
            .map_or(0, |limit| link.upward.arrived.saturating_sub(limit));
        let message = match message {
            message if beyond == 0 => message,
            Upward::Bye => Upward::Bye,
            Upward::Request(request, batch, sent) if beyond == 1 => {
                match self.tear(&mut state, id, batch) {
                    Some(batch) => Upward::Request(request, batch, sent),
                    None => return,
                }
            }
            _ => return,
        };
        let node = state.conns[id].node;
        if state.stopped[node] {
            state.inbox[node].push_back((id, message));
            return;
        }
        self.serve(&mut state, id, message);
    }

    /// Breaks the connection within a pipeline, if that fault occurs. Returns the part that the
    /// server gets.
    fn tear(&self, state: &mut State, id: ConnId, mut batch: Vec<Command>) -> Option<Vec<Command>> {
        if batch.len() < 2 || !state.roll(Fault::Torn) {
            return None;
        }
        let whole = batch.len();
        batch.truncate(1 + state.rng.index(whole - 1));
        let part = batch.len();
        self.watch.fault(Fault::Torn, || {
            format!("the server gets {part} of {whole} commands on connection {id}")
        });
        Some(batch)
    }

    /// Handles a message that has reached a client.
    pub fn arrive_down(&self, id: ConnId, message: Downward) {
        let mut state = self.state();
        let link = &mut state.conns[id];
        let until = link.downward.held_until;
        if self.exec.now() < until {
            return self.exec.schedule(until, Event::Down(id, message));
        }
        if !link.open {
            return;
        }
        match message {
            Downward::Accepted(result) => {
                if let Some(accept) = link.accept.take() {
                    drop(accept.send(result));
                }
            }
            Downward::Reply(request, outcomes) => {
                if let Some(answer) = link.pending.remove(&request) {
                    drop(answer.send(outcomes));
                }
            }
            Downward::Push(push) => {
                // A client that learns of the subscription on a broken connection gets no messages
                // over it.
                if matches!(push, Push::Subscribed(_)) && !link.severed {
                    self.watch.subscribed(link.proc);
                }
                if let Some(pushes) = &link.pushes {
                    drop(pushes.send(push));
                }
            }
            Downward::Closed => self.shut(link),
        }
    }

    /// Closes the client's end at once, as an error of its socket does.
    fn shut(&self, link: &mut Link) {
        link.open = false;
        link.accept = None;
        link.pending.clear();
        link.pushes = None;
        if link.purpose == Purpose::PubSub {
            self.watch.unsubscribed(link.proc);
        }
    }

    /// Closes the client's end, as the client itself does. The data that it sent before is on the
    /// way, perhaps for long.
    fn close(&self, id: ConnId) {
        let mut state = self.state();
        if !state.conns[id].open {
            return;
        }
        let now = self.exec.now();
        let on_its_way = {
            let way = state.conns[id].upward;
            way.sent > way.arrived
        };
        if on_its_way && state.roll(Fault::LateBytes) {
            let late = state.rng.between(1_000, 20_000_000);
            state.conns[id].upward.hold(now + late);
            self.watch.fault(Fault::LateBytes, || {
                format!("bytes of connection {id} linger for {} ms", late / 1000)
            });
        }
        self.shut(&mut state.conns[id]);
        self.post_up(&mut state, id, Upward::Bye);
    }

    /// Returns the connections that are open, or only those for subscriptions.
    pub fn open_conns(&self, pubsub: bool) -> Vec<ConnId> {
        let state = self.state();
        let open = state.conns.iter().enumerate();
        open.filter(|(_, link)| link.open && !link.severed)
            .filter(|(_, link)| !pubsub || link.purpose == Purpose::PubSub)
            .map(|(id, _)| id)
            .collect()
    }

    fn post_up(&self, state: &mut State, id: ConnId, message: Upward) {
        let delay = state.delay();
        let at = state.conns[id].upward.post(self.exec.now() + delay);
        self.exec.schedule(at, Event::Up(id, message));
    }

    fn post_down(&self, state: &mut State, id: ConnId, message: Downward) {
        if state.conns[id].severed || !state.conns[id].open {
            return;
        }
        let mut delay = state.delay();
        if matches!(message, Downward::Reply(..)) && state.roll(Fault::LateReply) {
            let late = state.rng.between(50_000, 1_200_000);
            delay += late;
            self.watch.fault(Fault::LateReply, || {
                format!("a reply on connection {id} is {} ms late", late / 1000)
            });
        }
        let at = state.conns[id].downward.post(self.exec.now() + delay);
        self.exec.schedule(at, Event::Down(id, message));
    }
}

impl State {
    fn roll(&mut self, fault: Fault) -> bool {
        let rate = self.faults.rate(fault);
        rate > 0 && self.rng.chance(rate)
    }

    fn delay(&mut self) -> u64 {
        let (least, most) = self.faults.delays();
        let mut delay = self.rng.between(least, most);
        if self.roll(Fault::Delay) {
            delay += self.rng.between(1_000, 400_000);
        }
        delay
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}
