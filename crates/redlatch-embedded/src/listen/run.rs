//! Requests of network clients. They run like requests of this process, and replies and pushes go
//! out in one order.

use redlatch_core::runtime::{Command, Reply, ServerError, Value};

use super::{outlet::Outlet, request::ProtocolError};
use crate::{
    EmbeddedServer,
    engine::{SessionId, SessionKind},
    shared::{Answer, Pusher, State},
    trouble::LostReply,
};

/// The result of submitting a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submitted {
    /// The request has run.
    Ran,
    /// The request runs when the server resumes.
    Waits,
    /// The connection has ended.
    Closed,
}

impl EmbeddedServer {
    /// Submits one request. Its reply takes the same queue as the pushes.
    pub(super) fn submit_in_order(&self, session: SessionId, command: Command) -> Submitted {
        let mut state = self.state();
        if !state.links.contains_key(&session) {
            return Submitted::Closed;
        }
        state.enqueue(session, vec![command], Answer::InOrder);
        match (state.stopped, state.links.contains_key(&session)) {
            (true, _) => Submitted::Waits,
            (false, true) => Submitted::Ran,
            (false, false) => Submitted::Closed,
        }
    }

    /// Answers bytes that are not a request, and ends the connection.
    pub(super) fn refuse(&self, session: SessionId, error: ProtocolError) {
        let mut state = self.state();
        if let Some(outlet) = state.outlet(session) {
            outlet.reply(&fail(&format!("ERR Protocol error: {error}")));
        }
        state.finish(session);
    }
}

impl State {
    /// Runs a request of a network client.
    pub(crate) fn run_in_order(&mut self, session: SessionId, command: &Command) {
        let (verb, reply) = self.reply_to(session, command);
        self.deliver();
        match self.lose_reply(session, command) {
            Some(LostReply::Hangs) => self.hang(session),
            Some(LostReply::Cuts) => self.cut(session),
            None => self.tell(session, verb, &reply),
        }
    }

    /// Runs a command of the protocol, or of the layer above the engine. Returns what a reply may
    /// change, and the reply.
    fn reply_to(&mut self, session: SessionId, command: &Command) -> (Verb, Reply) {
        let mut args = command.args();
        let name = args.next().unwrap_or_default().to_ascii_uppercase();
        let sub = args.next();
        let ok = Ok(Value::Status("OK".to_owned()));
        let reply = match &*name {
            b"HELLO" => fail("NOPROTO unsupported protocol version"),
            b"AUTH" => auth(command),
            // Clients describe themselves, which this server ignores.
            b"CLIENT" if sub.is_some_and(|sub| sub.eq_ignore_ascii_case(b"SETINFO")) => ok,
            b"QUIT" => return (Verb::Quit, ok),
            b"SSUBSCRIBE" | b"SUNSUBSCRIBE" => {
                fail("ERR sharded pub/sub is not served over a network")
            }
            // There is no subscription to end, so no push can be the reply.
            b"UNSUBSCRIBE"
                if sub.is_none() && !self.outlet(session).is_some_and(Outlet::subscribes) =>
            {
                let unsubscribed = Value::Bulk(b"unsubscribe".to_vec());
                Ok(Value::Array(vec![unsubscribed, Value::Nil, Value::Int(0)]))
            }
            b"SUBSCRIBE" | b"UNSUBSCRIBE" => {
                self.turn(session, SessionKind::PubSub);
                return (Verb::Subscribe, self.execute(session, command));
            }
            _ => self.execute(session, command),
        };
        (Verb::Other, reply)
    }

    /// Queues the reply, unless pushes were the reply.
    fn tell(&mut self, session: SessionId, verb: Verb, reply: &Reply) {
        let Some(outlet) = self.outlet(session) else {
            return;
        };
        match (verb, reply) {
            (Verb::Subscribe, Ok(_)) => {}
            (Verb::Other, Ok(Value::Status(pong))) if pong == "PONG" && outlet.subscribes() => {
                let pong = [&b"pong"[..], b""].map(|text| Value::Bulk(text.to_vec()));
                outlet.reply(&Ok(Value::Array(pong.to_vec())));
            }
            _ => outlet.reply(reply),
        }
        let subscribes = outlet.subscribes();
        match verb {
            Verb::Quit => self.finish(session),
            Verb::Subscribe if !subscribes => self.turn(session, SessionKind::Command),
            Verb::Subscribe | Verb::Other => {}
        }
    }

    /// Ends the connection after the queued bytes are written.
    pub(super) fn finish(&mut self, session: SessionId) {
        if let Some(outlet) = self.outlet(session) {
            outlet.finish();
        }
        self.cut(session);
    }

    fn outlet(&self, session: SessionId) -> Option<&Outlet> {
        match &self.links.get(&session)?.pusher {
            Pusher::Wire(outlet) => Some(outlet),
            Pusher::Queue(_) => None,
        }
    }
}

/// A command, by what follows its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Quit,
    /// `SUBSCRIBE` or `UNSUBSCRIBE`, to which pushes are the reply.
    Subscribe,
    Other,
}

/// Answers `AUTH` as a server without a password and without additional users.
fn auth(command: &Command) -> Reply {
    let args: Vec<_> = command.args().skip(1).collect();
    match args[..] {
        [_] => fail(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ),
        [b"default", _] => Ok(Value::Status("OK".to_owned())),
        [_, _] => fail("WRONGPASS invalid username-password pair or user is disabled."),
        _ => fail("ERR wrong number of arguments for 'auth' command"),
    }
}

fn fail(line: &str) -> Reply {
    Err(ServerError::parse(line))
}
