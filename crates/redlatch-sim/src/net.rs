//! The network: connections that keep order, hold things up and break, and the door of the server.
//!
//! A connection never repeats, drops or overtakes a message while it lives. What is on its way when it breaks or is closed may
//! arrive in part, or much later; the answers to that are lost.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use redlatch_core::seam::{
    Command, Conn, Dial, DialError, DialErrorKind, Dialed, Outcome, Protocol, Purpose, Push,
    Pushes, Transport,
};
use redlatch_embedded::engine::{SessionId, SessionKind};
use tokio::sync::{mpsc, oneshot};

use crate::{
    exec::{Exec, ProcId, lock},
    faults::{Fault, Faults},
    rng::Rng,
    server::Server,
    watch::Watch,
    world::Event,
};

/// The number of a connection.
pub type ConnId = usize;

/// All connections and the server behind them.
pub struct Net {
    exec: Arc<Exec>,
    state: Mutex<State>,
    watch: Arc<Watch>,
}

/// What the lock of the network protects.
#[derive(Debug)]
pub struct State {
    rng: Rng,
    conns: Vec<Link>,
    /// The server.
    pub server: Server,
    /// Which faults happen how often; none once it is healed.
    pub faults: Faults,
    stopped: bool,
    /// What reached the server while it was stopped.
    inbox: VecDeque<(ConnId, Upward)>,
}

/// One connection.
#[derive(Debug)]
struct Link {
    proc: ProcId,
    purpose: Purpose,
    session: Option<SessionId>,
    /// The client's end is open.
    open: bool,
    /// Nothing that is sent from here on arrives.
    severed: bool,
    accept: Option<oneshot::Sender<Result<(), String>>>,
    pending: BTreeMap<u64, oneshot::Sender<Vec<Outcome>>>,
    pushes: Option<mpsc::UnboundedSender<Push>>,
    receiver: Option<mpsc::UnboundedReceiver<Push>>,
    upward: Way,
    downward: Way,
    requests: u64,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// When the last message arrives.
    last: u64,
    /// Nothing arrives before.
    held_until: u64,
    sent: u64,
    arrived: u64,
    /// Messages beyond this number are lost.
    limit: Option<u64>,
}

/// A message to the server.
#[derive(Debug)]
pub enum Upward {
    /// A client wants to connect.
    Hello,
    /// A pipeline, sent at this time.
    Request(u64, Vec<Command>, u64),
    /// The client's end is closed.
    Bye,
}

/// A message to a client.
#[derive(Debug)]
pub enum Downward {
    /// The connection is up, or refused.
    Accepted(Result<(), String>),
    /// The answer to a pipeline.
    Reply(u64, Vec<Outcome>),
    /// Something unasked.
    Push(Push),
    /// The connection is gone.
    Closed,
}

impl Net {
    /// Makes a network with one server.
    pub fn new(
        exec: Arc<Exec>,
        rng: Rng,
        server: Server,
        faults: Faults,
        watch: Arc<Watch>,
    ) -> Arc<Self> {
        Arc::new(Self {
            exec,
            state: Mutex::new(State {
                rng,
                conns: Vec::new(),
                server,
                faults,
                stopped: false,
                inbox: VecDeque::new(),
            }),
            watch,
        })
    }

    /// Gives access to server and faults.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A message has reached the server's door.
    pub fn arrive_up(&self, id: ConnId, message: Upward) {
        let mut state = self.state();
        let now = self.exec.now();
        let link = &mut state.conns[id];
        if now < link.upward.held_until {
            self.exec
                .schedule(link.upward.held_until, Event::Up(id, message));
            return;
        }
        link.upward.arrived += 1;
        if link
            .upward
            .limit
            .is_some_and(|limit| link.upward.arrived > limit)
            && !matches!(message, Upward::Bye)
        {
            return;
        }
        if state.stopped {
            state.inbox.push_back((id, message));
            return;
        }
        self.serve(&mut state, id, message);
    }

    /// A message has reached a client.
    pub fn arrive_down(&self, id: ConnId, message: Downward) {
        let mut state = self.state();
        let now = self.exec.now();
        let link = &mut state.conns[id];
        if now < link.downward.held_until {
            self.exec
                .schedule(link.downward.held_until, Event::Down(id, message));
            return;
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
                if let Push::Subscribed(_) = push {
                    self.watch.subscribed(link.proc, now);
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
            self.watch.unsubscribed(link.proc, self.exec.now());
        }
    }

    /// The client closes its end; what it sent before is on its way, perhaps for long.
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
            self.watch.fault(Fault::LateBytes, now, || {
                format!("bytes of connection {id} linger for {} ms", late / 1000)
            });
        }
        self.shut(&mut state.conns[id]);
        self.post_up(&mut state, id, Upward::Bye);
    }

    /// Cuts a connection: some of what is on its way still arrives, perhaps late; no answer does.
    pub fn cut(&self, id: ConnId, told: bool) {
        let mut state = self.state();
        let now = self.exec.now();
        let (way, open) = (state.conns[id].upward, state.conns[id].open);
        if !open || state.conns[id].severed {
            return;
        }
        let survivors = state.rng.between(0, way.sent - way.arrived);
        let late = if state.roll(Fault::LateBytes) {
            state.rng.between(1_000, 20_000_000)
        } else {
            0
        };
        if late > 0 && survivors > 0 {
            self.watch.fault(Fault::LateBytes, now, || {
                format!("bytes of connection {id} linger for {} ms", late / 1000)
            });
        }
        let mut delay = state.delay();
        if state.conns[id].purpose == Purpose::PubSub {
            // Whoever only listens hears of the end later, and misses what is said meanwhile.
            delay += state.rng.below(300_000);
            self.watch.unsubscribed(state.conns[id].proc, now);
        }
        let link = &mut state.conns[id];
        link.severed = true;
        link.upward.limit = Some(way.arrived + survivors);
        link.upward.hold(now + late);
        link.downward.hold(now);
        if told {
            self.exec
                .schedule(now + delay, Event::Down(id, Downward::Closed));
        }
        let bye = link.upward.last + 1_000_000;
        self.exec.schedule(bye, Event::Up(id, Upward::Bye));
    }

    /// Holds up everything on a connection for `span` µs: in one direction or both.
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

    /// Returns the connections that are open.
    pub fn open_conns(&self) -> Vec<ConnId> {
        let state = self.state();
        let open = state.conns.iter().enumerate();
        open.filter(|(_, link)| link.open && !link.severed)
            .map(|(id, _)| id)
            .collect()
    }

    /// Tells whether a connection is for subscriptions.
    pub fn is_pubsub(&self, id: ConnId) -> bool {
        self.state().conns[id].purpose == Purpose::PubSub
    }

    /// The process is gone: the kernel closes its connections, or the machine is gone too and nobody does.
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

    /// Stops the server, as SIGSTOP does.
    pub fn stop(&self) {
        self.state().stopped = true;
    }

    /// Lets it go on: what has arrived meanwhile is served in order.
    pub fn resume(&self) {
        let mut state = self.state();
        state.stopped = false;
        while let Some((id, message)) = state.inbox.pop_front() {
            self.serve(&mut state, id, message);
        }
    }

    /// Restarts the server with the data of `snapshot`: all connections break, what was on its way is lost.
    pub fn restart(&self, snapshot: &redlatch_embedded::engine::Snapshot) {
        let mut state = self.state();
        let now = self.exec.now();
        state.inbox.clear();
        state.server.restart(snapshot, now);
        for id in 0..state.conns.len() {
            let delay = state.delay();
            let link = &mut state.conns[id];
            link.session = None;
            link.upward.limit = Some(link.upward.arrived);
            if link.open && !link.severed {
                link.severed = true;
                self.exec
                    .schedule(now + delay, Event::Down(id, Downward::Closed));
            }
        }
    }

    /// Ends all trouble: nothing is held up any more.
    pub fn heal(&self) {
        let mut state = self.state();
        state.faults = Faults::none(&state.faults);
        let now = self.exec.now();
        for link in &mut state.conns {
            if link.open {
                link.upward.held_until = now;
                link.downward.held_until = now;
            }
        }
        drop(state);
        self.resume();
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
        let delay = state.delay();
        let at = state.conns[id].downward.post(self.exec.now() + delay);
        self.exec.schedule(at, Event::Down(id, message));
    }

    fn serve(&self, state: &mut State, id: ConnId, message: Upward) {
        let now = self.exec.now();
        match message {
            Upward::Hello => {
                let kind = match state.conns[id].purpose {
                    Purpose::Command => SessionKind::Command,
                    Purpose::PubSub => SessionKind::PubSub,
                };
                let result = if state.roll(Fault::DialFailure) {
                    self.watch.fault(Fault::DialFailure, now, || {
                        format!("connection {id} is refused")
                    });
                    Err("refused".to_owned())
                } else {
                    state.conns[id].session = Some(state.server.open(kind));
                    Ok(())
                };
                self.post_down(state, id, Downward::Accepted(result));
            }
            Upward::Request(request, batch, sent) => {
                let Some(session) = state.conns[id].session else {
                    return;
                };
                let proc = state.conns[id].proc;
                let mut outcomes = Vec::with_capacity(batch.len());
                for command in &batch {
                    let reply = state.server.execute(session, command, now);
                    self.watch.served(proc, command, &reply, sent, now);
                    self.check_end(state, command, now);
                    outcomes.push(Outcome::Replied(reply));
                    self.deliver(state);
                }
                self.post_down(state, id, Downward::Reply(request, outcomes));
                if state.roll(Fault::ReplyLost) {
                    // The reply is on its way; the cut catches it.
                    self.watch.fault(Fault::ReplyLost, now, || {
                        format!("connection {id} breaks before the answer is out")
                    });
                    self.exec.schedule(now, Event::Cut(id));
                }
            }
            Upward::Bye => {
                if let Some(session) = state.conns[id].session.take() {
                    state.server.close(session);
                }
            }
        }
    }

    /// P6: every key of a lock ends by itself at any time, whatever dies.
    fn check_end(&self, state: &State, command: &Command, now: u64) {
        let mut args = command.args();
        if !args.next().is_some_and(|verb| verb.starts_with(b"EVAL")) {
            return;
        }
        let number = args
            .nth(1)
            .and_then(|number| std::str::from_utf8(number).ok());
        let number = number.and_then(|number| number.parse().ok()).unwrap_or(0);
        let time = state.server.time(now);
        for key in args.take(number) {
            if state.server.engine().ttl(key, time) == Some(None) {
                let key = String::from_utf8_lossy(key).into_owned();
                self.watch.violate("P6", format!("{key} has no end"));
            }
        }
    }

    /// Sends on what the server pushes.
    fn deliver(&self, state: &mut State) {
        for delivery in state.server.take_deliveries() {
            let to = state
                .conns
                .iter()
                .rposition(|link| link.session == Some(delivery.session));
            let Some(id) = to else { continue };
            if matches!(delivery.push, Push::Message { .. }) && state.roll(Fault::MessageLost) {
                self.watch.fault(Fault::MessageLost, self.exec.now(), || {
                    format!("a message on connection {id} is lost")
                });
                continue;
            }
            self.post_down(state, id, Downward::Push(delivery.push));
        }
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

impl Way {
    /// Returns when a message that would arrive at `at` does.
    fn post(&mut self, at: u64) -> u64 {
        self.sent += 1;
        self.last = (self.last + 1).max(at);
        self.last
    }

    fn hold(&mut self, until: u64) {
        self.held_until = self.held_until.max(until);
        self.last = self.last.max(self.held_until);
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

/// The network as one process sees it.
#[derive(Clone, Debug)]
pub struct SimTransport {
    net: Arc<Net>,
    proc: ProcId,
}

impl SimTransport {
    /// Makes the transport of `proc`.
    pub const fn new(net: Arc<Net>, proc: ProcId) -> Self {
        Self { net, proc }
    }
}

#[async_trait]
impl Transport for SimTransport {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let (conn, accepted) = {
            let mut state = self.net.state();
            let (accept, accepted) = oneshot::channel();
            let (pushes, receiver) = mpsc::unbounded_channel();
            state.conns.push(Link {
                proc: self.proc,
                purpose: dial.purpose,
                session: None,
                open: true,
                severed: false,
                accept: Some(accept),
                pending: BTreeMap::new(),
                pushes: Some(pushes),
                receiver: Some(receiver),
                upward: Way::default(),
                downward: Way::default(),
                requests: 0,
            });
            let id = state.conns.len() - 1;
            self.net.post_up(&mut state, id, Upward::Hello);
            let conn = SimConn {
                net: Arc::clone(&self.net),
                id,
            };
            (conn, accepted)
        };
        let answer = accepted.await.unwrap_or_else(|_| Err("reset".to_owned()));
        let receiver = self.net.state().conns[conn.id].receiver.take();
        match (answer, receiver) {
            (Ok(()), Some(receiver)) => Ok(Dialed {
                conn: Arc::new(conn),
                pushes: Box::new(SimPushes(receiver)),
                protocol: Protocol::Resp3,
            }),
            (answer, _) => Err(DialError {
                kind: DialErrorKind::Unreachable,
                message: format!("the server cannot be reached: {answer:?}"),
            }),
        }
    }
}

/// The client's end of a connection.
#[derive(Debug)]
struct SimConn {
    net: Arc<Net>,
    id: ConnId,
}

#[async_trait]
impl Conn for SimConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let len = batch.len();
        let answer = {
            let mut state = self.net.state();
            if state.conns[self.id].open {
                let now = self.net.exec.now();
                let (sender, answer) = oneshot::channel();
                let link = &mut state.conns[self.id];
                link.requests += 1;
                let request = link.requests;
                link.pending.insert(request, sender);
                self.net
                    .post_up(&mut state, self.id, Upward::Request(request, batch, now));
                Some(answer)
            } else {
                None
            }
        };
        match answer {
            Some(answer) => answer
                .await
                .unwrap_or_else(|_| vec![Outcome::Unknown("the connection broke".to_owned()); len]),
            None => vec![Outcome::NotSent("the connection is gone".to_owned()); len],
        }
    }
}

impl Drop for SimConn {
    fn drop(&mut self) {
        self.net.close(self.id);
    }
}

#[derive(Debug)]
struct SimPushes(mpsc::UnboundedReceiver<Push>);

#[async_trait]
impl Pushes for SimPushes {
    async fn next(&mut self) -> Option<Push> {
        self.0.recv().await
    }
}
