//! The transport to servers: sockets, the codec, and the handshake. It has no retries, no
//! reconnects and no time-outs of its own.

mod conn;
#[cfg(feature = "connection-info")]
mod connection_info;
mod error;
mod login;
mod pubsub;
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

use self::conn::Connection;
use crate::runtime::{Command, Conn, Dial, DialError, Dialed, Outcome, Purpose, Transport};

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
            return pubsub::send(self, &batch).await;
        }
        if batch.iter().any(|command| command.args().len() == 0) {
            // A server never answers an empty command, which would shift all later replies.
            return vec![Outcome::NotSent("an empty command".to_owned()); batch.len()];
        }
        self.exchange(&batch).await
    }
}
