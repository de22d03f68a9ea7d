//! The transport to servers in this process, and its connections.

use std::{collections::BTreeMap, future::poll_fn, sync::Arc, task::Poll};

use async_trait::async_trait;
use redlatch_core::runtime::{
    Address, Command, Conn, Dial, DialError, DialErrorKind, Dialed, Outcome, Protocol, Push,
    Pushes, Transport, Value,
};
use tokio::sync::mpsc;

use crate::{
    EmbeddedServer,
    engine::SessionId,
    shared::{self, Pusher},
};

/// Connects to servers in this process by the names that they have in this transport.
///
/// User and password are ignored. Only database 0 exists.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedTransport {
    servers: BTreeMap<String, EmbeddedServer>,
}

impl EmbeddedTransport {
    /// Creates a transport without any server; see [`serve`](Self::serve).
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes `server` reachable under `Address::Embedded(name)`.
    #[must_use]
    pub fn serve(mut self, name: impl Into<String>, server: EmbeddedServer) -> Self {
        self.servers.insert(name.into(), server);
        self
    }
}

#[async_trait]
impl Transport for EmbeddedTransport {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let address = &dial.address;
        let error = |kind, message| DialError { kind, message };
        let Address::Embedded(name) = address else {
            let message = format!("{address} is not the address of an embedded server");
            return Err(error(DialErrorKind::Unsupported, message));
        };
        let Some(server) = self.servers.get(name).cloned() else {
            let message = format!("there is no embedded server called {name}");
            return Err(error(DialErrorKind::Unreachable, message));
        };
        if dial.login.database != 0 {
            let message = "an embedded server has database 0 only".to_owned();
            return Err(error(DialErrorKind::Refused, message));
        }
        let (pusher, pushes) = mpsc::unbounded_channel();
        let name = dial.login.client_name.as_deref();
        let connected = server
            .connect(dial.purpose, name, Pusher::Queue(pusher))
            .await;
        let Some(session) = connected else {
            let message = format!("{address} refuses connections");
            return Err(error(DialErrorKind::Unreachable, message));
        };
        Ok(Dialed {
            conn: Arc::new(EmbeddedConn { server, session }),
            pushes: Box::new(EmbeddedPushes(pushes)),
            // Replies have the types of RESP2.
            protocol: Protocol::Resp2,
        })
    }
}

/// The client's end of a connection. Dropping it closes the connection.
#[derive(Debug)]
struct EmbeddedConn {
    server: EmbeddedServer,
    session: SessionId,
}

#[async_trait]
impl Conn for EmbeddedConn {
    async fn send(&self, batch: Vec<Command>) -> Vec<Outcome> {
        let len = batch.len();
        // The transport ignores user and password, and so does a later login.
        if let [command] = &*batch
            && command.args().next() == Some(b"AUTH")
        {
            return vec![Outcome::Replied(Ok(Value::Status("OK".to_owned())))];
        }
        let submitted = self.server.state().submit(self.session, batch);
        let Some(answer) = submitted else {
            let closed = "the connection to the embedded server is closed";
            return vec![Outcome::NotSent(closed.to_owned()); len];
        };
        breathe().await;
        let answer = answer.await;
        answer.unwrap_or_else(|_| vec![shared::unknown(); len])
    }
}

impl Drop for EmbeddedConn {
    fn drop(&mut self) {
        self.server.state().cut(self.session);
    }
}

/// The pushes of the server over one connection.
#[derive(Debug)]
struct EmbeddedPushes(mpsc::UnboundedReceiver<Push>);

#[async_trait]
impl Pushes for EmbeddedPushes {
    async fn next(&mut self) -> Option<Push> {
        self.0.recv().await
    }
}

/// Yields once to the runtime.
///
/// A task that only talks to embedded servers can then not starve other tasks. A call can also be
/// dropped after its command was handed over, as over a network.
async fn breathe() {
    let mut again = true;
    poll_fn(|context| {
        if std::mem::take(&mut again) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}
