//! The execution of requests on a server.

use std::collections::VecDeque;

use redlatch_core::runtime::{Command, Outcome, Push, Reply};
use redlatch_embedded::engine::{SessionId, SessionKind};

use super::{ConnId, Death, Downward, Net, Upward, link::Link, refusals};
use crate::{exec::ProcId, faults::Fault, mutants::What, scripts::keys_of};

/// The commands of a pipeline that the server has not run yet, and the outcomes of the others.
#[derive(Debug)]
pub(super) struct Pipeline {
    request: u64,
    sent: u64,
    commands: VecDeque<Command>,
    pub(super) outcomes: Vec<Outcome>,
}

impl Net {
    pub(super) fn serve(&mut self, id: ConnId, message: Upward) {
        match message {
            Upward::Hello => self.accept(id),
            Upward::Request(request, batch, sent) => {
                let pipeline = Pipeline {
                    request,
                    sent,
                    outcomes: Vec::with_capacity(batch.len()),
                    commands: batch.into(),
                };
                self.go_on(id, pipeline);
            }
            Upward::Bye => self.forget(id),
        }
    }

    /// Ends a session, and the wait under way.
    pub(super) fn forget(&mut self, id: ConnId) {
        let link = &mut self.conns[id];
        link.waiting = None;
        if let Some(session) = link.session.take() {
            self.servers[link.node].engine.close(session);
        }
    }

    /// Runs the commands of a pipeline and sends the replies, unless one has to wait for replicas.
    /// Later pipelines wait with it.
    pub(super) fn go_on(&mut self, id: ConnId, mut pipeline: Pipeline) {
        let link = &mut self.conns[id];
        if let Some(waiting) = &mut link.waiting {
            return waiting.queue.push(pipeline);
        }
        let (node, Some(session)) = (link.node, link.session) else {
            return;
        };
        let replicated = self.group.replicas > 0 && self.leads(node);
        while let Some(command) = pipeline.commands.pop_front() {
            if replicated && command.args().next() == Some(b"WAIT") {
                match self.wait(id, &command, pipeline) {
                    Some(rest) => pipeline = rest,
                    None => return,
                }
                continue;
            }
            let reply = self.run(id, session, &command, pipeline.sent);
            pipeline.outcomes.push(Outcome::Replied(reply));
        }
        if self.roll(Fault::ReplyLost) {
            self.watch.fault(Fault::ReplyLost, || {
                format!("connection {id} breaks before the answer is out")
            });
            self.tear_reply(id, pipeline);
            self.after(0, move |net| net.cut(id, true));
        } else {
            self.reply(id, pipeline);
        }
    }

    fn reply(&mut self, id: ConnId, pipeline: Pipeline) {
        let reply = Downward::Reply(pipeline.request, pipeline.outcomes);
        self.post_down(id, reply);
    }

    /// Accepts a connection or refuses it.
    fn accept(&mut self, id: ConnId) {
        let link = &self.conns[id];
        let (node, death) = (link.node, self.death(link.master));
        if death == Some(Death::Machine) {
            return;
        }
        let kind = match link.pubsub {
            true => SessionKind::PubSub,
            false => SessionKind::Command,
        };
        let result = if self.roll(Fault::DialFailure) {
            self.watch
                .fault(Fault::DialFailure, || format!("connection {id} is refused"));
            Err("refused".to_owned())
        } else if death.is_some() {
            Err("nobody listens".to_owned())
        } else {
            self.conns[id].session = Some(self.servers[node].engine.open(kind));
            Ok(())
        };
        self.post_down(id, Downward::Accepted(result));
    }

    /// Runs a command that was sent at `sent`, and returns the reply that leaves the server.
    fn run(&mut self, id: ConnId, session: SessionId, command: &Command, sent: u64) -> Reply {
        let now = self.exec.now();
        let Link { node, proc, .. } = self.conns[id];
        let strange = self.draw_strange(command);
        let refusal = match self.refusal(node, command) {
            None if strange == Some(false) => Some(self.strange_words()),
            None => self.redirect(id, command),
            refusal => refusal,
        };
        let reply = refusal.unwrap_or_else(|| self.servers[node].execute(session, command, now));
        self.executed(node, Some(id), (proc, sent), command, &reply);
        let reply = match self.planted {
            Some(What::DropsRefused) => {
                refusals::taken_for_done(command, reply, self.servers[node].time(now))
            }
            _ => reply,
        };
        self.deliver(node);
        if keys_of(command).is_some() && self.roll(Fault::Doubled) {
            let (command, restarts) = (command.clone(), self.servers[node].restarts);
            let span = self.rng.between(1_000, 5_500_000);
            self.after(span, move |net| {
                // Data on the way does not survive a restart.
                if net.servers[node].restarts == restarts {
                    net.double(node, &command, (proc, sent));
                }
            });
        }
        match strange {
            Some(true) => self.strange_words(),
            _ => reply,
        }
    }

    /// Delivers a copy of a request on a connection of its own. Nobody gets the reply.
    fn double(&mut self, node: usize, command: &Command, sender: (ProcId, u64)) {
        if self.stopped[node].is_some() {
            return;
        }
        self.watch.fault(Fault::Doubled, || {
            format!("a request of process {} arrives once more", sender.0)
        });
        let server = &mut self.servers[node];
        let session = server.engine.open(SessionKind::Command);
        let reply = server.execute(session, command, self.exec.now());
        self.executed(node, None, sender, command, &reply);
        self.deliver(node);
        self.servers[node].engine.close(session);
    }

    /// Shows a command to replicas and to the observer. Checks P6: every key that a script may have
    /// written has an expiry.
    fn executed(
        &mut self,
        node: usize,
        id: Option<ConnId>,
        sender: (ProcId, u64),
        command: &Command,
        reply: &Reply,
    ) {
        self.replicate(node, id);
        let server = &self.servers[node];
        let time = server.time(self.exec.now());
        self.watch.served(sender, (command, reply), time.micros());
        for key in keys_of(command).into_iter().flatten() {
            if let Some(ttl) = server.engine.ttl(key, time) {
                let ttl = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
                self.watch.lives(&String::from_utf8_lossy(key), ttl);
            }
        }
    }

    /// Sends a part of the replies to a pipeline before its connection breaks.
    fn tear_reply(&mut self, id: ConnId, mut pipeline: Pipeline) {
        let whole = pipeline.outcomes.len();
        let out = |part: usize| format!("{part} of {whole} answers on connection {id} get out");
        if let Some(part) = self.tear(whole, out) {
            let broke = Outcome::Unknown("the connection broke".to_owned());
            pipeline.outcomes[part..].fill(broke);
            self.reply(id, pipeline);
        }
    }

    /// Forwards the pushes of a server, and its messages to the other nodes of its cluster.
    pub(super) fn deliver(&mut self, node: usize) {
        self.push(node);
        for (channel, payload) in self.servers[node].engine.take_messages() {
            for other in (0..self.servers.len()).filter(|&other| other != node) {
                if self.apart_until(node, other) == 0 {
                    self.servers[other].engine.hear(&channel, &payload);
                    self.push(other);
                }
            }
        }
    }

    fn push(&mut self, node: usize) {
        for delivery in self.servers[node].engine.take_deliveries() {
            let mut conns = self.conns.iter();
            let hears = |link: &Link| link.node == node && link.session == Some(delivery.session);
            let Some(id) = conns.rposition(hears) else {
                continue;
            };
            self.overhear(id, &delivery.push);
            if matches!(delivery.push, Push::Message { .. }) && self.roll(Fault::MessageLost) {
                self.watch.fault(Fault::MessageLost, || {
                    format!("a message on connection {id} is lost")
                });
                continue;
            }
            self.post_down(id, Downward::Push(delivery.push));
        }
    }
}
