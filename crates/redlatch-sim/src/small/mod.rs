//! Exhaustive small worlds: two or three clients that follow the protocol page, a server that runs
//! the real scripts, and every order in which requests, replies and messages can come, be lost or
//! be doubled, within the bounds of a [`World`].
//!
//! The scripts and the embedded engine are those of the other checks. The clients are models of
//! `docs/contributing/protocol.md` with one waiter per client, see [`client`]. Time passes in steps
//! of [`TICK`]. [`laws`] lists what holds in each state. The checker is
//! [stateright](https://docs.rs/stateright), which goes through all states breadth first, so that a
//! violation comes with a shortest way to it.
//!
//! A world does not cover re-entry, forced ends, lists of several entries, several waiters of one
//! client, and times between two ticks.

pub mod client;
pub mod laws;
pub mod run;
pub mod server;

use std::fmt;

use clap::ValueEnum;
use stateright::{Model, Property};

use self::{
    client::{Client, Heard, Next, Phase},
    laws::Ghost,
    server::{Line, Store, Verb, What},
};
use crate::mutants::Forgery;

/// One step of time, in ms. The durations of a world are multiples of it.
pub const TICK: u64 = 2_500;

/// The lease, in ticks.
pub const LEASE: u8 = 2;

/// How long after its sending a request may act, and how long a waiter stays registered, in ticks.
/// The scripts have 5 s for both.
pub const REACH: u8 = 2;

/// A rule of the protocol that the clients of a world break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Broken {
    /// A lease counts from the reply, and not from the sending.
    CountFromSend,
    /// A holder trusts its lease for a tick too long.
    Margin,
    /// A request that is sent again has another attempt.
    ResendSameId,
    /// A caller that gives up sends no undo.
    Undo,
    /// An undo does not refuse late copies.
    MarkCopies,
    /// A request may act at any time.
    ActBefore,
    /// A grant counts although its lease has ended.
    GrantExpired,
    /// A late answer restores a lost hold.
    LossIsFinal,
    /// An undo does not remove the waiter.
    StrikeOut,
    /// A client does not ask for the allowance for other clocks.
    Allowance,
    /// A grant counts before a replica has confirmed it.
    Confirm,
    /// The lease of a granted message counts from the message.
    DateBySending,
}

/// What may happen, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Requests, replies and messages that are lost.
    pub losses: u8,
    /// Requests of which a copy comes later.
    pub copies: u8,
    /// Requests that are sent again without an answer.
    pub again: u8,
    /// Callers that give up.
    pub leaves: u8,
    /// Renewals.
    pub renewals: u8,
    /// Clients that die.
    pub deaths: u8,
    /// Replicas that take over.
    pub takeovers: u8,
}

/// The bounds of a world.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Whether the lock is fair, and not plain.
    pub fair: bool,
    /// For each client, whether its calls wait, in order.
    pub calls: Vec<Vec<bool>>,
    /// What may happen.
    pub budget: Budget,
    /// The last tick.
    pub horizon: u8,
    /// Whether waiters of a fair lock accept grants by a release.
    pub orders: bool,
    /// Whether a replica follows the server, and grants need its confirmation.
    pub durable: bool,
    /// How far the clock of the replica is ahead, in ticks.
    pub ahead: u8,
    /// The rule that the clients break.
    pub broken: Option<Broken>,
    /// The script that runs instead of another.
    pub forgery: Option<Forgery>,
}

impl World {
    /// Tells whether the clients keep a rule.
    pub(crate) fn keeps(&self, rule: Broken) -> bool {
        self.broken != Some(rule)
    }
}

/// A state of a world.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The clock of the clients, and of the first server.
    pub now: u8,
    /// How far the present server's clock is ahead.
    pub ahead: u8,
    /// The server's data.
    pub store: Store,
    /// The replica's data.
    pub replica: Option<Store>,
    /// The clients.
    pub clients: Vec<Client>,
    /// What is on its way, in an order without meaning.
    pub wires: Vec<Packet>,
    /// What may still happen.
    pub left: Budget,
    /// What the laws remember.
    pub ghost: Ghost,
}

/// Something on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Packet {
    /// A request of a client, sent at a tick. The reply reaches the client only with a tick.
    Request(u8, Option<u8>, What),
    /// The reply to such a request, the server's tick in it, and whether a replica has confirmed.
    Reply(u8, u8, What, Line, u8, bool),
    /// A message to a client: the number of an attempt, and a grant.
    Message(u8, Option<u8>, Option<Grant>),
}

/// A grant in a message: token, end by the server's clock in ticks, whether the holder before died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// The token of the hold.
    pub token: u64,
    /// The end of its lease.
    pub ends: u8,
    /// Whether the holder before never released.
    pub abandoned: bool,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client begins its next call.
    Begin(u8),
    /// A client asks again.
    Ask(u8),
    /// A caller gives up.
    Leave(u8),
    /// A holder renews.
    Renew(u8),
    /// A holder releases.
    Release(u8),
    /// A client dies.
    Die(u8),
    /// A packet arrives.
    Arrive(Packet),
    /// A request arrives, and will arrive once more.
    Copy(Packet),
    /// A packet is lost.
    Lose(Packet),
    /// A tick passes.
    Tick,
    /// The replica gets what the server has, and confirms.
    Sync,
    /// The replica takes over.
    TakeOver,
}

impl State {
    /// The server's clock, in ticks.
    pub(crate) const fn server_now(&self) -> u8 {
        self.now + self.ahead
    }

    fn put(&mut self, packet: Packet) {
        let at = self.wires.partition_point(|other| *other < packet);
        self.wires.insert(at, packet);
    }

    fn take(&mut self, packet: &Packet) {
        if let Ok(at) = self.wires.binary_search(packet) {
            self.wires.remove(at);
        }
    }

    fn client(&mut self, who: u8) -> &mut Client {
        &mut self.clients[usize::from(who)]
    }

    fn ask(&mut self, world: &World, who: u8) {
        let now = self.now;
        if let Some(what) = self.client(who).ask(world, now) {
            self.time_out(who);
            self.put(Packet::Request(who, Some(now), what));
        }
    }

    /// The client waits for no earlier reply any more.
    fn time_out(&mut self, who: u8) {
        for packet in &mut self.wires {
            if let Packet::Request(of, sent, what) = packet
                && *of == who
                && what.verb != Verb::Renew
            {
                *sent = None;
            }
        }
        self.wires.retain(|packet| match packet {
            Packet::Reply(to, _, what, ..) => *to != who || what.verb == Verb::Renew,
            _ => true,
        });
        self.wires.sort();
    }

    /// The server serves a request.
    fn serve(&mut self, world: &World, who: u8, sent: Option<u8>, what: &What) {
        let now = self.server_now();
        let (line, messages, store) = world.serve(&self.store, who, what, now);
        self.ghost.served(world, (who, what, &line), &store, now);
        self.store = store;
        if let Some(sent) = sent
            && self.client(who).phase != Phase::Dead
        {
            self.put(Packet::Reply(who, sent, what.clone(), line, now, false));
        }
        for (to, number, grant) in messages {
            if self.client(to).phase != Phase::Dead {
                self.put(Packet::Message(to, number, grant));
            }
        }
    }

    fn arrive(&mut self, world: &World, packet: Packet) {
        let now = self.now;
        let (who, next) = match packet {
            Packet::Request(who, sent, what) => return self.serve(world, who, sent, &what),
            Packet::Reply(who, sent, what, line, at, confirmed) => {
                let heard = Heard {
                    sent,
                    now,
                    at,
                    confirmed: confirmed || !world.durable || !world.keeps(Broken::Confirm),
                };
                (who, self.client(who).answered(world, &what, &line, heard))
            }
            Packet::Message(who, number, grant) => {
                (who, self.client(who).called(world, number, grant, now))
            }
        };
        match next {
            Next::Rest => {}
            Next::Take(token, abandoned) => self.ghost.taken(token, abandoned),
            Next::Send(what) => self.put(Packet::Request(who, Some(now), what)),
        }
    }

    /// What a client may do.
    fn choices(&self, who: u8, client: &Client, actions: &mut Vec<Action>) {
        let left = &self.left;
        match &client.phase {
            Phase::Idle if client.has_calls() => actions.push(Action::Begin(who)),
            Phase::Asking if left.again > 0 => actions.push(Action::Ask(who)),
            Phase::Waiting { heard } if client.rung || self.now > *heard => {
                actions.push(Action::Ask(who));
            }
            Phase::Holding { until, .. } => {
                if left.renewals > 0 && self.now < *until {
                    actions.push(Action::Renew(who));
                }
                actions.push(Action::Release(who));
            }
            Phase::Leaving(_) if left.again > 0 => actions.push(Action::Ask(who)),
            _ => {}
        }
        if client.asks() && left.leaves > 0 {
            actions.push(Action::Leave(who));
        }
        if left.deaths > 0 && client.phase != Phase::Dead {
            actions.push(Action::Die(who));
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = Store::empty();
        vec![State {
            now: 0,
            ahead: 0,
            replica: self.durable.then(|| store.clone()),
            store,
            clients: self.calls.iter().map(|calls| Client::new(calls)).collect(),
            wires: Vec::new(),
            left: self.budget.clone(),
            ghost: Ghost::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (who, client) in (0..).zip(&state.clients) {
            state.choices(who, client, actions);
        }
        let mut last = None;
        for packet in &state.wires {
            if last == Some(packet) {
                continue;
            }
            last = Some(packet);
            actions.push(Action::Arrive(packet.clone()));
            if state.left.losses > 0 {
                actions.push(Action::Lose(packet.clone()));
            }
            if state.left.copies > 0 && matches!(packet, Packet::Request(_, Some(_), _)) {
                actions.push(Action::Copy(packet.clone()));
            }
        }
        if state.now < self.horizon {
            actions.push(Action::Tick);
        }
        if let Some(replica) = &state.replica {
            let waits = |packet: &Packet| matches!(packet, Packet::Reply(.., false));
            if *replica != state.store || state.wires.iter().any(waits) {
                actions.push(Action::Sync);
            }
            if state.left.takeovers > 0 {
                actions.push(Action::TakeOver);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin(who) => {
                state.client(who).begin();
                state.ask(self, who);
            }
            Action::Ask(who) => {
                if !matches!(state.client(who).phase, Phase::Waiting { .. }) {
                    state.left.again -= 1;
                }
                state.ask(self, who);
            }
            Action::Leave(who) => {
                state.left.leaves -= 1;
                state.client(who).leave(self);
                state.ask(self, who);
            }
            Action::Renew(who) => {
                state.left.renewals -= 1;
                let what = state.client(who).renewal(last.now)?;
                state.put(Packet::Request(who, Some(last.now), what));
            }
            Action::Release(who) => {
                state.client(who).release();
                state.ask(self, who);
            }
            Action::Die(who) => state.die(who),
            Action::Arrive(packet) => {
                state.take(&packet);
                state.arrive(self, packet);
            }
            Action::Copy(packet) => state.copy(self, packet),
            Action::Lose(packet) => {
                state.left.losses -= 1;
                state.ghost.quiet |= matches!(packet, Packet::Message(..));
                state.take(&packet);
            }
            Action::Tick => state.tick(),
            Action::Sync => state.sync(),
            Action::TakeOver => state.take_over(self),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        laws::all()
    }
}

impl State {
    /// The process of a client dies. Its requests arrive yet.
    fn die(&mut self, who: u8) {
        self.left.deaths -= 1;
        self.client(who).die();
        self.wires.retain(|packet| match packet {
            Packet::Request(..) => true,
            Packet::Reply(to, ..) | Packet::Message(to, ..) => *to != who,
        });
    }

    /// A request arrives, and once more later. No reply to the second copy reaches the client.
    fn copy(&mut self, world: &World, packet: Packet) {
        self.left.copies -= 1;
        self.take(&packet);
        if let Packet::Request(who, _, what) = &packet {
            self.put(Packet::Request(*who, None, what.clone()));
        }
        self.arrive(world, packet);
    }

    fn tick(&mut self) {
        self.now += 1;
        let clients = self.clients.iter();
        let lost = clients.filter_map(|client| client.lost(self.now));
        self.ghost.lost.extend(lost);
    }

    fn sync(&mut self) {
        self.replica = Some(self.store.clone());
        for packet in &mut self.wires {
            if let Packet::Reply(.., confirmed) = packet {
                *confirmed = true;
            }
        }
        self.wires.sort();
    }

    fn take_over(&mut self, world: &World) {
        self.left.takeovers -= 1;
        if let Some(replica) = self.replica.take() {
            self.store = replica;
        }
        self.ahead = world.ahead;
        self.ghost.took_over(&self.store);
        self.clients.iter_mut().for_each(Client::disconnected);
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tick {}", self.now)?;
        for (id, client) in ('a'..).zip(&self.clients) {
            write!(f, "\n      {id} {client:?}")?;
        }
        for packet in &self.wires {
            write!(f, "\n      on its way: {packet:?}")?;
        }
        write!(f, "\n      server {:?}", self.store)
    }
}
