//! The execution of requests on a server.

use std::collections::VecDeque;

use redlatch_core::runtime::{Command, Outcome, Purpose, Push, Reply};
use redlatch_embedded::engine::{SessionId, SessionKind};

use super::{
    ConnId, Death, Downward, Net, State, Upward,
    link::Link,
    refusals::{self, Strange},
};
use crate::{exec::ProcId, faults::Fault, mutants::What, scripts::keys_of, world::Event};

/// A request that the network has doubled.
#[derive(Debug)]
pub struct Copy {
    node: usize,
    proc: ProcId,
    command: Command,
    sent: u64,
    /// The restarts of the server so far: data on the way does not survive one.
    restarts: u64,
}

/// The commands of a pipeline that the server has not run yet, and the outcomes of the others.
#[derive(Debug)]
pub(super) struct Pipeline {
    request: u64,
    sent: u64,
    commands: VecDeque<Command>,
    pub(super) outcomes: Vec<Outcome>,
}

impl Net {
    pub(super) fn serve(&self, state: &mut State, id: ConnId, message: Upward) {
        let node = state.conns[id].node;
        match message {
            Upward::Hello => self.accept(state, id),
            Upward::Request(request, batch, sent) => {
                if let Some(waiting) = &mut state.conns[id].waiting {
                    let message = Upward::Request(request, batch, sent);
                    return waiting.queue.push_back(message);
                }
                let pipeline = Pipeline {
                    request,
                    sent,
                    outcomes: Vec::with_capacity(batch.len()),
                    commands: batch.into(),
                };
                self.go_on(state, id, pipeline);
            }
            Upward::Bye => {
                state.conns[id].waiting = None;
                if let Some(session) = state.conns[id].session.take() {
                    state.servers[node].close(session);
                }
            }
        }
    }

    /// Runs the commands of a pipeline and sends the replies, unless one has to wait for replicas.
    pub(super) fn go_on(&self, state: &mut State, id: ConnId, mut pipeline: Pipeline) {
        let Some(session) = state.conns[id].session else {
            return;
        };
        let now = self.exec.now();
        while let Some(command) = pipeline.commands.pop_front() {
            if state.waits_for_replicas(id, &command) {
                match self.wait(state, id, &command, pipeline) {
                    Some(rest) => pipeline = rest,
                    None => return,
                }
                continue;
            }
            let reply = self.run(state, id, session, &command, pipeline.sent);
            pipeline.outcomes.push(Outcome::Replied(reply));
        }
        let Pipeline {
            request, outcomes, ..
        } = pipeline;
        if state.roll(Fault::ReplyLost) {
            self.watch.fault(Fault::ReplyLost, || {
                format!("connection {id} breaks before the answer is out")
            });
            self.tear_reply(state, id, request, outcomes);
            self.exec.schedule(now, Event::Cut(id));
        } else {
            self.post_down(state, id, Downward::Reply(request, outcomes));
        }
    }

    /// Accepts a connection or refuses it.
    fn accept(&self, state: &mut State, id: ConnId) {
        let Link { node, master, .. } = state.conns[id];
        let death = state.masters.death(master);
        if death == Some(Death::Machine) {
            return;
        }
        let kind = match state.conns[id].purpose {
            Purpose::Command => SessionKind::Command,
            Purpose::PubSub => SessionKind::PubSub,
        };
        let result = if state.roll(Fault::DialFailure) {
            self.watch
                .fault(Fault::DialFailure, || format!("connection {id} is refused"));
            Err("refused".to_owned())
        } else if death.is_some() {
            Err("nobody listens".to_owned())
        } else {
            state.conns[id].session = Some(state.servers[node].open(kind));
            Ok(())
        };
        self.post_down(state, id, Downward::Accepted(result));
    }

    /// Runs a command that was sent at `sent`, and returns the reply that leaves the server.
    fn run(
        &self,
        state: &mut State,
        id: ConnId,
        session: SessionId,
        command: &Command,
        sent: u64,
    ) -> Reply {
        let now = self.exec.now();
        let Link { node, proc, .. } = state.conns[id];
        let strange = self.draw_strange(state, command);
        let refusal = match state.rights.refuse(node, command, now) {
            Some(refusal) => Some(Err(refusal)),
            None if strange == Some(Strange::Before) => Some(state.strange_words()),
            None => state.redirect(id, command, now),
        };
        let reply = refusal.unwrap_or_else(|| state.servers[node].execute(session, command, now));
        self.executed(state, node, Some(id), (proc, sent), (command, &reply));
        let reply = match state.planted {
            Some(What::DropsRefused) => {
                refusals::taken_for_done(command, reply, state.servers[node].time(now))
            }
            _ => reply,
        };
        self.deliver(state, node);
        if keys_of(command).is_some() && state.roll(Fault::Doubled) {
            let at = now + state.rng.between(1_000, 5_500_000);
            let copy = Copy {
                node,
                proc,
                command: command.clone(),
                sent,
                restarts: state.servers[node].restarts,
            };
            self.exec.schedule(at, Event::Double(copy));
        }
        match strange {
            Some(Strange::After) => state.strange_words(),
            _ => reply,
        }
    }

    /// Delivers a copy of a request on a connection of its own. Nobody gets the reply.
    pub fn double(&self, copy: &Copy) {
        let mut state = self.state();
        let Copy { node, proc, .. } = *copy;
        if state.stopped[node] || state.servers[node].restarts != copy.restarts {
            return;
        }
        let now = self.exec.now();
        self.watch.fault(Fault::Doubled, || {
            format!("a request of process {proc} arrives once more")
        });
        let session = state.servers[node].open(SessionKind::Command);
        let reply = state.servers[node].execute(session, &copy.command, now);
        let call = (&copy.command, &reply);
        self.executed(&mut state, node, None, (proc, copy.sent), call);
        self.deliver(&mut state, node);
        state.servers[node].close(session);
    }

    /// Shows a command to replicas and to the observer. Checks P6: every key that a script may have
    /// written has an expiry.
    fn executed(
        &self,
        state: &mut State,
        node: usize,
        id: Option<ConnId>,
        sender: (ProcId, u64),
        (command, reply): (&Command, &Reply),
    ) {
        self.replicate(state, node, id);
        let server = &state.servers[node];
        let time = server.time(self.exec.now());
        self.watch.served(sender, (command, reply), time.micros());
        for key in keys_of(command).into_iter().flatten() {
            if let Some(ttl) = server.ttl(key, time) {
                let ttl = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
                self.watch.lives(&String::from_utf8_lossy(key), ttl);
            }
        }
    }

    /// Sends a part of the replies to a pipeline before its connection breaks.
    fn tear_reply(&self, state: &mut State, id: ConnId, request: u64, mut outcomes: Vec<Outcome>) {
        if outcomes.len() < 2 || !state.roll(Fault::Torn) {
            return;
        }
        let whole = outcomes.len();
        let part = 1 + state.rng.index(whole - 1);
        self.watch.fault(Fault::Torn, || {
            format!("{part} of {whole} answers on connection {id} get out")
        });
        for outcome in &mut outcomes[part..] {
            *outcome = Outcome::Unknown("the connection broke".to_owned());
        }
        self.post_down(state, id, Downward::Reply(request, outcomes));
    }

    /// Forwards the pushes of a server, and its messages to the other nodes of its cluster.
    pub(super) fn deliver(&self, state: &mut State, node: usize) {
        self.push(state, node);
        for (channel, payload) in state.servers[node].take_messages() {
            for other in (0..state.servers.len()).filter(|&other| other != node) {
                if state.apart_until(node, other, self.exec.now()) == 0 {
                    state.servers[other].hear(&channel, &payload);
                    self.push(state, other);
                }
            }
        }
    }

    fn push(&self, state: &mut State, node: usize) {
        for delivery in state.servers[node].take_deliveries() {
            let to = state
                .conns
                .iter()
                .rposition(|link| link.node == node && link.session == Some(delivery.session));
            let Some(id) = to else { continue };
            state.overhear(id, &delivery.push);
            if matches!(delivery.push, Push::Message { .. }) && state.roll(Fault::MessageLost) {
                self.watch.fault(Fault::MessageLost, || {
                    format!("a message on connection {id} is lost")
                });
                continue;
            }
            self.post_down(state, id, Downward::Push(delivery.push));
        }
    }
}

impl State {
    /// Tells whether a command is a `WAIT` at a server that has replicas.
    fn waits_for_replicas(&self, id: ConnId, command: &Command) -> bool {
        let replicated = self.masters.group.replicas > 0 && self.masters.leads(self.conns[id].node);
        replicated && command.args().next() == Some(b"WAIT")
    }
}
