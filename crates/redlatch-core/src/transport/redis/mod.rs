//! The transport to servers: sockets, the codec, and the handshake. It has no retries, no
//! reconnects and no time-outs of its own.

mod conn;
#[cfg(feature = "connection-info")]
mod connection_info;
mod error;
mod login;
pub(crate) mod resp;
mod stream;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "connection-info")]
pub(crate) use self::connection_info::address_and_login;
#[cfg(feature = "connection-info")]
pub(crate) use ::redis::ConnectionInfo;

use std::sync::Arc;

use async_trait::async_trait;

use self::conn::{Awaited, Connection};
use crate::runtime::{
    Command, Conn, Dial, DialError, Dialed, Outcome, Purpose, Push, Transport, Value,
};

/// Connects to Redis or Valkey servers over TCP, TLS or a unix socket.
///
/// The transport uses RESP3, and RESP2 if the server refuses RESP3.
///
/// Addresses with TLS need the Cargo feature `tls`, and a provider of cryptography: the process's
/// default of rustls, or else the provider of the feature `tls-aws-lc-rs` or `tls-ring`. The
/// transport installs no default.
///
/// Commands that are ready at the same time are written together, once several calls are under way.
///
/// A connection belongs to the tokio runtime on which it was dialled, and ends with it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RedisTransport;

impl RedisTransport {
    /// Creates the transport, which has no settings.
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for RedisTransport {
    /// Connects, logs in and sends `PING`.
    ///
    /// The transport tries all resolved addresses at the same time and uses the first that answers.
    /// A refused `CLIENT SETNAME` or `CLIENT SETINFO` is no failure.
    ///
    /// # Errors
    ///
    /// See [`DialErrorKind`](crate::runtime::DialErrorKind). The kind is `Busy` if the answer to
    /// `PING` says that the server is loading its data, is disconnected from its primary, or is
    /// stuck in a script.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes all sockets that the dial opened. Only a name resolution, and the
    /// reading of certificates, continue to their end, on tokio's blocking threads.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with I/O enabled.
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let stream = stream::connect(&dial.address).await?;
        let (conn, pushes) = Connection::start(stream, dial.purpose);
        let protocol = login::log_in(&conn, &dial.login).await?;
        Ok(Dialed {
            conn: Arc::new(conn),
            pushes: Box::new(pushes),
            protocol,
        })
    }
}

#[async_trait]
impl Conn for Connection {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        if self.purpose() == Purpose::PubSub {
            return send_pubsub(self, &batch).await;
        }
        if batch.iter().any(|command| command.args().len() == 0) {
            // A server never answers an empty command, which would shift all later replies.
            return vec![Outcome::NotSent("an empty command".to_owned()); batch.len()];
        }
        self.exchange(&batch).await
    }
}

/// Sends subscriptions, pings and logins. Returns one outcome for each, which only says that the
/// server has processed the command; pushes report the result of a subscription.
async fn send_pubsub(conn: &Connection, batch: &[Command]) -> Vec<Outcome> {
    let parsed: Vec<_> = batch.iter().map(parts).collect();
    let parts = parsed.iter().flatten().flatten().cloned();
    let (commands, awaited): (Vec<_>, _) = parts.unzip();
    let mut outcomes = conn.call(&commands, awaited).await.into_iter();
    let outcome = |parts: &Result<Vec<_>, &str>| match parts {
        Ok(parts) => one(&mut outcomes, parts.len()),
        Err(why) => Outcome::NotSent((*why).to_owned()),
    };
    parsed.iter().map(outcome).collect()
}

/// Splits a command into one for each channel, since the server answers each by itself. The error
/// says why the command must not be sent.
fn parts(command: &Command) -> Result<Vec<(Command, Awaited)>, &'static str> {
    let mut args = command.args();
    let name = args.next().unwrap_or_default();
    let is_ping = name.eq_ignore_ascii_case(b"PING") && args.len() == 0;
    let is_auth = name.eq_ignore_ascii_case(b"AUTH") && args.len() > 0;
    if is_ping || is_auth {
        return Ok(vec![(command.clone(), None)]);
    }
    let mut words = WORDS.iter();
    let word = words.find(|(word, _)| name.eq_ignore_ascii_case(word.as_bytes()));
    let (_, confirmation) = word.ok_or("not a command for a connection for pub/sub")?;
    // Without channels, the number of answers would depend on the server's subscriptions.
    if args.len() == 0 {
        return Err("no channel is named");
    }
    let part = |channel: &[u8]| {
        let part = Command::with_capacity(2, name.len() + channel.len());
        let awaited = Some(confirmation(channel.to_vec()));
        (part.arg(name).arg(channel), awaited)
    };
    Ok(args.map(part).collect())
}

/// Takes the outcomes of one command's `count` parts. The first failure of a part is the failure of
/// the whole.
fn one(outcomes: &mut impl Iterator<Item = Outcome>, count: usize) -> Outcome {
    let nothing = Outcome::Replied(Ok(Value::Nil));
    let parts = outcomes.take(count);
    parts.fold(nothing, |whole, part| match whole {
        Outcome::Replied(Ok(_)) => part,
        failed => failed,
    })
}

/// The push that confirms a command for this channel.
type Confirmation = fn(Vec<u8>) -> Push;

/// The commands for subscriptions, and what confirms them.
const WORDS: [(&str, Confirmation); 4] = [
    ("subscribe", Push::Subscribed),
    ("unsubscribe", Push::Unsubscribed),
    ("ssubscribe", Push::Subscribed),
    ("sunsubscribe", Push::Unsubscribed),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ServerError;

    #[test]
    fn only_subscriptions_and_pings_may_be_sent() {
        let parse = |line: &str| {
            let mut command = Command::with_capacity(3, 16);
            line.split_whitespace().for_each(|word| command.push(word));
            parts(&command)
        };
        let ping = Command::new("PING");
        assert_eq!(parse("PING"), Ok(vec![(ping, None)]));
        let auth = Command::new("AUTH").arg("app").arg("pw");
        assert_eq!(parse("AUTH app pw"), Ok(vec![(auth, None)]));
        for (word, confirmation) in WORDS {
            let part = |channel: &str| {
                let awaited = Some(confirmation(channel.into()));
                (Command::new(&word.to_uppercase()).arg(channel), awaited)
            };
            let line = format!("{} a b", word.to_uppercase());
            assert_eq!(parse(&line), Ok(vec![part("a"), part("b")]));
        }
        for refused in [
            "",
            "GET a",
            "PING a",
            "AUTH",
            "PSUBSCRIBE a",
            "SUBSCRIBE",
            "UNSUBSCRIBE",
        ] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn split_command_fails_with_any_of_its_parts() {
        let ok = || Outcome::Replied(Ok(Value::Nil));
        let refused = || Outcome::Replied(Err(ServerError::parse("NOPERM no")));
        let pong = || Outcome::Replied(Ok(Value::Status("PONG".into())));
        let closed = || Outcome::NotSent("closed".to_owned());
        let one = |parts: Vec<_>| {
            let count = parts.len();
            let mut outcomes = parts.into_iter().chain([pong()]);
            let whole = one(&mut outcomes, count);
            assert_eq!(outcomes.next(), Some(pong()), "the next command's");
            whole
        };
        assert_eq!(one(vec![ok(), ok()]), ok());
        assert_eq!(one(vec![ok(), refused(), ok()]), refused());
        assert_eq!(one(vec![pong()]), pong());
        assert_eq!(one(vec![closed(), closed()]), closed());
    }
}
