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
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};

use redlatch_core::runtime::Push;

use self::{forgery::Message, link::Link, moving::Moving, refusals::Lack, replicas::Following};
pub use self::{
    link::{ConnId, Downward, Upward},
    masters::{Death, Post, Seat},
    takeover::Apart,
    transport::{SimTransport, address_of, addresses},
};
use crate::{
    exec::Exec,
    faults::{Fault, Faults},
    mutants::What,
    plan::Group,
    rng::Rng,
    server::Server,
    watch::Watch,
};

/// All connections, and their servers.
#[derive(Debug)]
pub struct Net {
    exec: Arc<Exec>,
    watch: Arc<Watch>,
    rng: Rng,
    conns: Vec<Link>,
    /// The servers, which are independent of each other; most kinds use one.
    pub servers: Vec<Server>,
    /// The rates of the faults; zero once the run is healed.
    faults: Faults,
    /// Per server, the messages that have reached it while it is stopped.
    stopped: Vec<Option<VecDeque<(ConnId, Upward)>>>,
    group: Group,
    /// The master that is dead. It refuses connections or does not answer.
    dead: Option<(Seat, Death)>,
    /// Per server and sentinel, since when it serves, if it is not dead.
    since: Vec<u64>,
    /// The time of the last death.
    pub last_death: u64,
    /// Per server and sentinel, the master of each shard as far as it knows.
    known: Vec<Vec<Post>>,
    /// Per shard, the present master.
    posts: Vec<Post>,
    /// The slots that were given to other masters.
    moved: BTreeMap<u16, Seat>,
    /// The slot that moves.
    moving: Option<Moving>,
    /// Per server, what it follows; `None` for one that follows none.
    follows: Vec<Option<Following>>,
    /// Per server, the number of its effects that were sent to its followers.
    sent: Vec<u64>,
    streams: u64,
    /// A part of the servers and clients that cannot reach the rest.
    apart: Option<Apart>,
    /// The periods in which permissions are missing. Without an entry all commands are permitted.
    lacks: Vec<Lack>,
    /// The subscriptions of each connection. Messages are forged from them.
    listeners: BTreeSet<(ConnId, Vec<u8>)>,
    /// The latest messages, from which others are forged.
    messages: Vec<Message>,
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
    ) -> Arc<Mutex<Self>> {
        let first = |shard| Post {
            epoch: 0,
            seat: group.seats(shard).start,
        };
        let posts: Vec<_> = (0..group.shards).map(first).collect();
        let mut net = Self {
            exec,
            watch,
            rng,
            conns: Vec::new(),
            faults,
            stopped: servers.iter().map(|_| None).collect(),
            group,
            dead: None,
            since: vec![0; group.all()],
            last_death: 0,
            known: vec![posts.clone(); group.all()],
            posts,
            moved: BTreeMap::new(),
            moving: None,
            follows: vec![None; servers.len()],
            sent: vec![0; servers.len()],
            streams: 0,
            apart: None,
            lacks: Vec::new(),
            listeners: BTreeSet::new(),
            messages: Vec::new(),
            planted,
            servers,
        };
        net.begin_to_follow();
        Arc::new(Mutex::new(net))
    }

    /// Lets something happen at the time `at`.
    fn at(&self, at: u64, event: impl FnOnce(&mut Self) + Send + 'static) {
        self.exec.schedule(at, move |world| event(&mut world.net()));
    }

    /// Lets something happen `span` µs from now.
    fn after(&self, span: u64, event: impl FnOnce(&mut Self) + Send + 'static) {
        self.at(self.exec.now() + span, event);
    }

    /// Handles a message that has reached the server.
    pub fn arrive_up(&mut self, id: ConnId, message: Upward) {
        let link = &mut self.conns[id];
        let until = link.upward.held_until;
        if self.exec.now() < until {
            return self.at(until, move |net| net.arrive_up(id, message));
        }
        link.upward.arrived += 1;
        let (node, way) = (link.node, link.upward);
        let limit = way.limit.unwrap_or(way.arrived);
        let beyond = way.arrived.saturating_sub(limit);
        let message = match message {
            Upward::Request(request, mut batch, sent) if beyond == 1 => {
                // The connection has broken within the pipeline, if that fault occurs.
                let whole = batch.len();
                let got = |part: usize| {
                    format!("the server gets {part} of {whole} commands on connection {id}")
                };
                let Some(part) = self.tear(whole, got) else {
                    return;
                };
                batch.truncate(part);
                Upward::Request(request, batch, sent)
            }
            Upward::Hello | Upward::Request(..) if beyond > 0 => return,
            message => message,
        };
        match &mut self.stopped[node] {
            Some(inbox) => inbox.push_back((id, message)),
            None => self.serve(id, message),
        }
    }

    /// Draws which part of a pipeline or of its replies gets through; `None` if that fault does not
    /// occur.
    fn tear(&mut self, whole: usize, tell: impl Fn(usize) -> String) -> Option<usize> {
        if whole < 2 || !self.roll(Fault::Torn) {
            return None;
        }
        let part = 1 + self.rng.index(whole - 1);
        self.watch.fault(Fault::Torn, || tell(part));
        Some(part)
    }

    /// Handles a message that has reached a client.
    pub fn arrive_down(&mut self, id: ConnId, message: Downward) {
        let link = &mut self.conns[id];
        let until = link.downward.held_until;
        if self.exec.now() < until {
            return self.at(until, move |net| net.arrive_down(id, message));
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
                    self.watch.hears(link.proc, true);
                }
                if let Some(pushes) = &link.pushes {
                    drop(pushes.send(push));
                }
            }
            Downward::Closed => self.shut(id),
        }
    }

    /// Closes the client's end at once, as an error of its socket does.
    fn shut(&mut self, id: ConnId) {
        let link = &mut self.conns[id];
        link.open = false;
        link.accept = None;
        link.pending.clear();
        link.pushes = None;
        if link.pubsub {
            self.watch.hears(link.proc, false);
        }
    }

    /// Closes the client's end, as the client itself does. The data that it sent before is on the
    /// way, perhaps for long.
    fn close(&mut self, id: ConnId) {
        let way = self.conns[id].upward;
        if !self.conns[id].open {
            return;
        }
        if way.sent > way.arrived {
            let until = self.exec.now() + self.draw_lag(id, true);
            self.conns[id].upward.hold(until);
        }
        self.shut(id);
        self.post_up(id, Upward::Bye);
    }

    /// Draws for how long the data on the way lingers on a connection that ends, in µs. `tells` if
    /// there is any.
    fn draw_lag(&mut self, id: ConnId, tells: bool) -> u64 {
        if !self.roll(Fault::LateBytes) {
            return 0;
        }
        let late = self.rng.between(1_000, 20_000_000);
        if tells {
            self.watch.fault(Fault::LateBytes, || {
                format!("bytes of connection {id} linger for {} ms", late / 1000)
            });
        }
        late
    }

    /// Returns the connections that are open, or only those for subscriptions.
    pub fn open_conns(&self, pubsub: bool) -> Vec<ConnId> {
        self.find(|link| link.open && !link.severed && (link.pubsub || !pubsub))
    }

    fn find(&self, hit: impl Fn(&Link) -> bool) -> Vec<ConnId> {
        let hit = |id: &ConnId| hit(&self.conns[*id]);
        (0..self.conns.len()).filter(hit).collect()
    }

    fn post_up(&mut self, id: ConnId, message: Upward) {
        let at = self.exec.now() + self.delay();
        let at = self.conns[id].upward.post(at);
        self.at(at, move |net| net.arrive_up(id, message));
    }

    fn post_down(&mut self, id: ConnId, message: Downward) {
        if self.conns[id].severed || !self.conns[id].open {
            return;
        }
        let mut at = self.exec.now() + self.delay();
        if matches!(message, Downward::Reply(..)) && self.roll(Fault::LateReply) {
            let late = self.rng.between(50_000, 1_200_000);
            at += late;
            self.watch.fault(Fault::LateReply, || {
                format!("a reply on connection {id} is {} ms late", late / 1000)
            });
        }
        let at = self.conns[id].downward.post(at);
        self.at(at, move |net| net.arrive_down(id, message));
    }

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
