//! A connection to a server in this process.

use std::{future::poll_fn, task::Poll};

use async_trait::async_trait;
use redlatch_core::runtime::{Command, Conn, Outcome, Push, Pushes, Value};
use tokio::sync::mpsc;

use crate::{EmbeddedServer, engine::SessionId, shared};

/// The client's end of a connection. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct EmbeddedConn {
    server: EmbeddedServer,
    session: SessionId,
}

impl EmbeddedConn {
    pub(crate) const fn new(server: EmbeddedServer, session: SessionId) -> Self {
        Self { server, session }
    }
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
        let Some(answer) = self.server.submit(self.session, batch) else {
            let closed = "the connection to the embedded server is closed";
            return vec![Outcome::NotSent(closed.to_owned()); len];
        };
        breathe().await;
        answer
            .await
            .unwrap_or_else(|_| vec![shared::unknown(); len])
    }
}

impl Drop for EmbeddedConn {
    fn drop(&mut self) {
        self.server.disconnect(self.session);
    }
}

/// The pushes of the server over one connection.
#[derive(Debug)]
pub(crate) struct EmbeddedPushes(pub(crate) mpsc::UnboundedReceiver<Push>);

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
