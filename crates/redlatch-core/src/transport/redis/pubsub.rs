//! Pub/sub connections over RESP3.

use std::pin::pin;

use async_trait::async_trait;
use futures_util::future;

use super::{error, wire::Wire};
use crate::runtime::{Command, Conn, Outcome, Value};

/// A RESP3 connection for subscriptions and pings only.
///
/// The pushes report the result of a subscription. An outcome only says that the server has
/// processed the command. If a server ends subscriptions by itself (a slot changes its owner), the
/// crate takes that push for the answer to the oldest command under way. A refusal may then reach a
/// later command, or none. The shift ends as soon as no command is under way.
#[derive(Debug)]
pub(super) struct PubSubConn {
    wire: Wire,
}

impl PubSubConn {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire }
    }

    async fn run(&self, command: Command) -> Outcome {
        if self.wire.gone().is() {
            return error::closed();
        }
        match Request::parse(&command) {
            Ok(Request::Ping) => one(self.wire.exchange_in_order(vec![command]).await),
            Ok(Request::Subscribe(channels)) => {
                let mut conn = self.wire.handle();
                let call = pin!(conn.subscribe(channels));
                changed(self.wire.answer(call).await)
            }
            Ok(Request::Unsubscribe(channels)) => {
                let mut conn = self.wire.handle();
                let call = pin!(conn.unsubscribe(channels));
                changed(self.wire.answer(call).await)
            }
            Ok(Request::Sharded(verb, channels)) => {
                // The crate expects one answer for a command that it has no method for. The server
                // sends one per channel, so each command names one channel.
                let commands = channels
                    .into_iter()
                    .map(|channel| Command::new(verb).arg(channel))
                    .collect();
                one(self.wire.exchange_in_order(commands).await)
            }
            Err(why) => Outcome::NotSent(why.to_owned()),
        }
    }
}

#[async_trait]
impl Conn for PubSubConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        // `join_all` polls the commands in order, and so they are written in order.
        future::join_all(batch.into_iter().map(|command| self.run(command))).await
    }
}

/// The commands that a pub/sub connection accepts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// `PING`, without an argument.
    Ping,
    /// `SUBSCRIBE` to these channels.
    Subscribe(Vec<Vec<u8>>),
    /// `UNSUBSCRIBE` from these channels.
    Unsubscribe(Vec<Vec<u8>>),
    /// `SSUBSCRIBE` or `SUNSUBSCRIBE` with these channels.
    Sharded(&'static str, Vec<Vec<u8>>),
}

impl Request {
    /// Parses a command. The error says why the command must not be sent.
    pub(super) fn parse(command: &Command) -> Result<Self, &'static str> {
        let mut args = command.args();
        let name = args.next().unwrap_or_default();
        let channels: Vec<Vec<u8>> = args.map(<[u8]>::to_vec).collect();
        let is = |verb: &str| name.eq_ignore_ascii_case(verb.as_bytes());
        if is("PING") && channels.is_empty() {
            return Ok(Self::Ping);
        }
        let request = if is("SUBSCRIBE") {
            Self::Subscribe
        } else if is("UNSUBSCRIBE") {
            Self::Unsubscribe
        } else if is("SSUBSCRIBE") {
            |channels| Self::Sharded("SSUBSCRIBE", channels)
        } else if is("SUNSUBSCRIBE") {
            |channels| Self::Sharded("SUNSUBSCRIBE", channels)
        } else {
            return Err("not a command for a connection for pub/sub");
        };
        // Without channels, the number of answers would depend on the server's subscriptions.
        if channels.is_empty() {
            Err("no channel is named")
        } else {
            Ok(request(channels))
        }
    }
}

/// Returns the outcome of a change of subscriptions, which contains nothing but its confirmation.
pub(super) fn changed(answer: Result<(), Outcome>) -> Outcome {
    answer.map_or_else(|outcome| outcome, |()| Outcome::Replied(Ok(Value::Nil)))
}

/// Combines the outcomes of one command's parts. The failure of one part is the failure of the
/// whole.
fn one(parts: Vec<Outcome>) -> Outcome {
    let mut whole = None;
    for part in parts {
        match part {
            Outcome::Replied(Ok(Value::Status(text))) if whole.is_none() => {
                whole = Some(Outcome::Replied(Ok(Value::Status(text))));
            }
            Outcome::Replied(Ok(_)) => {}
            wrong => return wrong,
        }
    }
    whole.unwrap_or_else(|| changed(Ok(())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ServerError;

    #[test]
    fn only_subscriptions_and_pings_may_be_sent() {
        let parse = |line: &str| {
            let mut command = Command::with_capacity(3, 16);
            for word in line.split_whitespace() {
                command.push(word);
            }
            Request::parse(&command)
        };
        let ab = || vec![b"a".to_vec(), b"b".to_vec()];
        assert_eq!(parse("PING"), Ok(Request::Ping));
        assert_eq!(parse("subscribe a b"), Ok(Request::Subscribe(ab())));
        assert_eq!(parse("UNSUBSCRIBE a b"), Ok(Request::Unsubscribe(ab())));
        assert_eq!(
            parse("SSUBSCRIBE a b"),
            Ok(Request::Sharded("SSUBSCRIBE", ab()))
        );
        assert_eq!(
            parse("SUNSUBSCRIBE a b"),
            Ok(Request::Sharded("SUNSUBSCRIBE", ab()))
        );
        for refused in [
            "",
            "GET a",
            "PING a",
            "PSUBSCRIBE a",
            "SUBSCRIBE",
            "UNSUBSCRIBE",
        ] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn split_command_fails_with_any_of_its_parts() {
        let ok = || Outcome::Replied(Ok(Value::Array(vec![])));
        let refused = || Outcome::Replied(Err(ServerError::parse("NOPERM no")));
        let pong = || Outcome::Replied(Ok(Value::Status("PONG".into())));
        assert_eq!(one(vec![ok(), ok()]), changed(Ok(())));
        assert_eq!(one(vec![ok(), refused(), ok()]), refused());
        assert_eq!(one(vec![pong()]), pong());
        assert_eq!(one(vec![error::closed(), error::closed()]), error::closed());
    }
}
