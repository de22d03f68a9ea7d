//! The state behind all handles of one server: engine, clock, connections and trouble.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use redlatch_core::{
    Moment,
    runtime::{Command, Outcome, Push, Reply, Runtime, ServerError},
};
use tokio::sync::{mpsc, oneshot};

#[cfg(feature = "listen")]
use crate::listen::Outlet;
use crate::{
    engine::{Engine, Model, ServerTime, SessionId, SessionKind},
    trouble::{LostReply, Order},
};

/// The state of a server that its lock protects. No method waits.
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// What the server's wall clock showed at `origin` by the runtime's clock. It can be stepped.
    pub(crate) base: ServerTime,
    origin: Moment,
    pub(crate) links: BTreeMap<SessionId, Link>,
    pub(crate) failures: Vec<Order<ServerError>>,
    pub(crate) losses: Vec<Order<LostReply>>,
    /// The number of messages that are still to be lost.
    pub(crate) lost_messages: usize,
    pub(crate) refuses: bool,
    pub(crate) stopped: bool,
    /// The number of stops so far. A timer of an older stop then resumes nothing.
    pub(crate) stops: u64,
    backlog: VecDeque<Request>,
}

impl State {
    /// Creates the state of a server whose clock shows `time` now.
    pub(crate) fn new(runtime: Arc<dyn Runtime>, model: Model, time: ServerTime) -> Self {
        Self {
            origin: runtime.now(),
            runtime,
            base: time,
            engine: Engine::new(model, time),
            links: BTreeMap::new(),
            failures: Vec::new(),
            losses: Vec::new(),
            lost_messages: 0,
            refuses: false,
            stopped: false,
            stops: 0,
            backlog: VecDeque::new(),
        }
    }

    /// Opens a connection. Pushes to it go to `pusher`, which is dropped when the connection ends.
    pub(crate) fn open(
        &mut self,
        kind: SessionKind,
        name: Option<&str>,
        pusher: Pusher,
    ) -> SessionId {
        let session = self.engine.open(kind);
        if let Some(name) = name {
            self.engine.set_name(session, name);
        }
        let link = Link {
            pusher,
            takes_commands: kind == SessionKind::Command,
            hangs: false,
            hanging: Vec::new(),
        };
        self.links.insert(session, link);
        session
    }

    /// Changes the purpose of a connection to commands or to subscriptions.
    #[cfg(feature = "listen")]
    pub(crate) fn turn(&mut self, session: SessionId, kind: SessionKind) {
        if let Some(link) = self.links.get_mut(&session) {
            link.takes_commands = kind == SessionKind::Command;
            self.engine.turn(session, kind);
        }
    }

    /// Ends a connection. The requests that it sent before still run.
    pub(crate) fn cut(&mut self, session: SessionId) {
        self.links.remove(&session);
        self.engine.close(session);
        for (sender, _, answer) in &mut self.backlog {
            if *sender == session {
                *answer = Answer::Gone;
            }
        }
    }

    pub(crate) fn cut_all(&mut self) {
        let sessions: Vec<_> = self.links.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.cut(session));
    }

    /// Forgets all connections and their pending requests, as the end of a process does.
    pub(crate) fn forget_clients(&mut self) {
        self.cut_all();
        self.backlog.clear();
    }

    /// Submits a batch. It runs now, or when the server resumes. Returns `None` if the connection
    /// has ended.
    pub(crate) fn submit(
        &mut self,
        session: SessionId,
        batch: Vec<Command>,
    ) -> Option<oneshot::Receiver<Vec<Outcome>>> {
        self.links.get(&session)?;
        let (answer, receiver) = oneshot::channel();
        self.enqueue(session, batch, Answer::Whole(answer));
        Some(receiver)
    }

    /// Takes a request, and runs it unless the server is stopped.
    pub(crate) fn enqueue(&mut self, session: SessionId, batch: Vec<Command>, answer: Answer) {
        self.backlog.push_back((session, batch, answer));
        self.run_backlog();
    }

    /// Runs the pending requests in order, unless the server is stopped.
    pub(crate) fn run_backlog(&mut self) {
        while !self.stopped {
            let Some(request) = self.backlog.pop_front() else {
                return;
            };
            self.run(request);
        }
    }

    pub(crate) fn now(&self) -> ServerTime {
        self.base.after(self.runtime.now().since(self.origin))
    }

    fn run(&mut self, (session, batch, answer): Request) {
        #[cfg(feature = "listen")]
        if matches!(answer, Answer::InOrder) {
            return batch
                .iter()
                .for_each(|command| self.run_in_order(session, command));
        }
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut lost = None;
        for command in &batch {
            let outcome = Outcome::Replied(self.execute(session, command));
            self.deliver();
            // After the first lost reply, no later reply of the batch can arrive.
            lost = lost.or_else(|| self.lose_reply(session, command));
            outcomes.push(if lost.is_some() { unknown() } else { outcome });
        }
        let Answer::Whole(answer) = answer else {
            return;
        };
        match lost {
            None => drop(answer.send(outcomes)),
            Some(LostReply::Hangs) => {
                self.hang(session);
                if let Some(link) = self.links.get_mut(&session) {
                    link.hanging.push(answer);
                }
            }
            Some(LostReply::Cuts) => {
                self.cut(session);
                drop(answer.send(outcomes));
            }
        }
    }

    /// Lets a connection hang: no further reply arrives over it.
    pub(crate) fn hang(&mut self, session: SessionId) {
        if let Some(link) = self.links.get_mut(&session) {
            link.hangs = true;
        }
    }

    pub(crate) fn execute(&mut self, session: SessionId, command: &Command) -> Reply {
        if let Some(error) = Order::take(&mut self.failures, command) {
            return Err(error);
        }
        let now = self.now();
        self.engine.execute(session, command, now)
    }

    pub(crate) fn deliver(&mut self) {
        for delivery in self.engine.take_deliveries() {
            if matches!(delivery.push, Push::Message { .. }) && self.lost_messages > 0 {
                self.lost_messages -= 1;
                continue;
            }
            let link = self.links.get_mut(&delivery.session);
            if link.is_some_and(|link| !link.pusher.push(delivery.push)) {
                self.cut(delivery.session);
            }
        }
    }

    /// Returns how the reply to this command is lost, or `None` if it is not lost.
    pub(crate) fn lose_reply(
        &mut self,
        session: SessionId,
        command: &Command,
    ) -> Option<LostReply> {
        let link = self.links.get(&session)?;
        if link.hangs {
            return Some(LostReply::Hangs);
        }
        match link.takes_commands {
            true => Order::take(&mut self.losses, command),
            false => None,
        }
    }
}

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) pusher: Pusher,
    takes_commands: bool,
    /// Whether a reply was lost. No reply can follow it.
    hangs: bool,
    /// Calls whose replies never arrive. Their senders live as long as the connection.
    hanging: Vec<oneshot::Sender<Vec<Outcome>>>,
}

/// The destination of the pushes of a connection.
#[derive(Debug)]
pub(crate) enum Pusher {
    /// A client in this process.
    Queue(mpsc::UnboundedSender<Push>),
    /// A client over the network, whose replies take the same queue.
    #[cfg(feature = "listen")]
    Wire(Outlet),
}

impl Pusher {
    /// Passes a push on. Returns whether the connection can continue.
    fn push(&mut self, push: Push) -> bool {
        match self {
            // A dropped receiver means that the connection is about to close.
            Self::Queue(queue) => drop(queue.send(push)),
            #[cfg(feature = "listen")]
            Self::Wire(outlet) => return outlet.push(&push),
        }
        true
    }
}

/// A submitted batch, with its sender and the receiver of its outcomes.
type Request = (SessionId, Vec<Command>, Answer);

/// The receiver of the outcomes of a batch.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A caller that receives all outcomes at once.
    Whole(oneshot::Sender<Vec<Outcome>>),
    /// A client over the network, which receives each reply by itself, in one order with its
    /// pushes.
    #[cfg(feature = "listen")]
    InOrder,
    /// No receiver is left.
    Gone,
}

pub(crate) fn unknown() -> Outcome {
    Outcome::Unknown("the connection to the embedded server ended before the reply".to_owned())
}
