//! The transport over the `redis` crate, which serves as codec and multiplexed socket only: no
//! retries, no reconnects, no time-outs of its own.

mod address;
mod combine;
mod command;
mod error;
mod exchange;
mod login;
mod pubsub;
mod pubsub2;
mod pushes;
mod value;
mod wire;

#[cfg(feature = "connection-info")]
pub(crate) use self::address::address_and_login;
#[cfg(feature = "connection-info")]
pub(crate) use ::redis::ConnectionInfo;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ProtocolVersion, RedisError};
use tokio::sync::mpsc;

use self::{
    command::CommandConn,
    pubsub::PubSubConn,
    pushes::{CommandPushes, Gone, PushSink, QueuedPushes},
    wire::Wire,
};
use crate::runtime::{Conn, Dial, DialError, Dialed, Protocol, Purpose, Pushes, Transport};

/// Connects to Redis or Valkey servers over TCP, TLS or a unix socket.
///
/// The transport uses RESP3, and RESP2 if the server refuses RESP3. The protocols differ in the
/// detection of a closed connection and in pub/sub:
///
/// * Over RESP3 the end of a connection shows at once: its [`Pushes`] end, and later commands get
///   [`Outcome::NotSent`](crate::runtime::Outcome::NotSent).
/// * Over RESP2 a command connection notices its end only when a command is sent over it, so the
///   owner's health check finds it. A pub/sub connection notices its end at once.
/// * Over RESP2 there is no sharded pub/sub, and a pub/sub connection has no name.
///
/// Addresses with TLS need the Cargo feature `tls`. If the application has not installed a default
/// crypto provider for rustls, the first TLS dial installs ring.
///
/// Requests that are ready at the same time share one pipeline, once several calls are under way.
///
/// A connection belongs to the tokio runtime on which it was dialled, and ends with it.
#[derive(Clone, Default)]
pub struct RedisTransport {
    /// An address of the crate whose certificates are used, since they cannot be read from it.
    certified: Option<ConnectionAddr>,
}

impl RedisTransport {
    /// Creates the transport, which has no settings.
    pub const fn new() -> Self {
        Self { certified: None }
    }

    /// Creates the transport that uses the certificates of `info` where no others are set.
    #[cfg(feature = "connection-info")]
    pub(crate) fn with_certificates_of(info: &ConnectionInfo) -> Self {
        Self {
            certified: Some(info.addr().clone()),
        }
    }
}

impl fmt::Debug for RedisTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTransport").finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for RedisTransport {
    /// Connects, logs in and sends `PING`.
    ///
    /// The transport tries all resolved addresses at the same time and uses the first that answers.
    /// It dials a server that refuses RESP3 a second time. A refused `CLIENT SETNAME` or `CLIENT
    /// SETINFO` is no failure.
    ///
    /// # Errors
    ///
    /// See [`DialErrorKind`](crate::runtime::DialErrorKind). The kind is `Busy` if the answer to
    /// `PING` says that the server is loading its data, is disconnected from its primary, or is
    /// stuck in a script.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes all sockets that it opened. Only a name resolution continues to
    /// its end, on tokio's blocking threads.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with I/O enabled.
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let certified = self.certified.as_ref();
        let client = address::client(dial, ProtocolVersion::RESP3, certified)?;
        match dial_resp3(dial, &client).await {
            Ok(dialed) => dialed,
            Err(refused) if error::refuses_resp3(&refused, &dial.login) => {
                dial_resp2(dial, certified).await
            }
            Err(failed) => Err(error::of_connect(&dial.address, &failed)),
        }
    }
}

/// Dials with RESP3. The outer error comes from connecting and from `HELLO`, and decides whether
/// RESP2 is tried.
async fn dial_resp3(dial: &Dial, client: &Client) -> Result<Result<Dialed, DialError>, RedisError> {
    let gone = Gone::default();
    let (sink, queue) = match dial.purpose {
        Purpose::Command => (PushSink::new(gone.clone(), None), None),
        Purpose::PubSub => {
            let (sender, receiver) = mpsc::unbounded_channel();
            (PushSink::new(gone.clone(), Some(sender)), Some(receiver))
        }
    };
    let config = connection_config().set_push_sender(sink);
    let conn = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    // The connection has its own copy of the sink, whose drop signals the end of the connection.
    drop(config);
    let wire = Wire::new(conn, gone);
    if let Err(failed) = login::finish(&wire, &dial.login, login::Auth::Done).await {
        return Ok(Err(failed));
    }
    let (conn, pushes): (Arc<dyn Conn>, Box<dyn Pushes>) = match queue {
        None => {
            let pushes = CommandPushes::new(wire.gone());
            (Arc::new(CommandConn::new(wire)), Box::new(pushes))
        }
        Some(queue) => (
            Arc::new(PubSubConn::new(wire)),
            Box::new(QueuedPushes::new(queue)),
        ),
    };
    Ok(Ok(Dialed {
        conn,
        pushes,
        protocol: Protocol::Resp3,
    }))
}

async fn dial_resp2(dial: &Dial, certified: Option<&ConnectionAddr>) -> Result<Dialed, DialError> {
    let client = address::client(dial, ProtocolVersion::RESP2, certified)?;
    let (conn, pushes): (Arc<dyn Conn>, Box<dyn Pushes>) = match dial.purpose {
        Purpose::Command => {
            let conn = client
                .get_multiplexed_async_connection_with_config(&connection_config())
                .await
                .map_err(|failed| error::of_connect(&dial.address, &failed))?;
            let wire = Wire::new(conn, Gone::default());
            login::finish(&wire, &dial.login, login::Auth::Pending).await?;
            let pushes = CommandPushes::new(wire.gone());
            (Arc::new(CommandConn::new(wire)), Box::new(pushes))
        }
        Purpose::PubSub => {
            let connect = async {
                let mut pubsub = client.get_async_pubsub().await?;
                let pong = pubsub.ping::<redis::Value>().await?;
                Ok((pubsub, value::reply(pong)))
            };
            let (pubsub, pong) = connect
                .await
                .map_err(|failed| error::of_connect(&dial.address, &failed))?;
            login::check_ping(pong)?;
            let (conn, pushes) = pubsub2::split(pubsub);
            (Arc::new(conn), Box::new(pushes))
        }
    };
    Ok(Dialed {
        conn,
        pushes,
        protocol: Protocol::Resp2,
    })
}

/// Returns a configuration without time-outs. The caller sets deadlines. A time-out of the crate
/// would report a result for commands that still run.
fn connection_config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_BUFFER)
}

/// Number of requests that may wait for the socket before further ones wait for room.
const PIPELINE_BUFFER: usize = 1024;
