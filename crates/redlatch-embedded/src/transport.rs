//! The transport to servers in this process.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use redlatch_core::runtime::{
    Address, Dial, DialError, DialErrorKind, Dialed, Protocol, Purpose, Transport,
};
use tokio::sync::mpsc;

use crate::{
    EmbeddedServer,
    conn::{EmbeddedConn, EmbeddedPushes},
    engine::SessionKind,
    shared::Pusher,
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

    fn server(&self, address: &Address) -> Result<EmbeddedServer, DialError> {
        let Address::Embedded(name) = address else {
            let message = format!("{address} is not the address of an embedded server");
            return Err(DialError {
                kind: DialErrorKind::Unsupported,
                message,
            });
        };
        self.servers.get(name).cloned().ok_or_else(|| {
            let message = format!("there is no embedded server called {name}");
            DialError {
                kind: DialErrorKind::Unreachable,
                message,
            }
        })
    }
}

#[async_trait]
impl Transport for EmbeddedTransport {
    async fn dial(&self, dial: &Dial) -> Result<Dialed, DialError> {
        let server = self.server(&dial.address)?;
        if dial.login.database != 0 {
            let message = "an embedded server has database 0 only".to_owned();
            return Err(DialError {
                kind: DialErrorKind::Refused,
                message,
            });
        }
        let kind = match dial.purpose {
            Purpose::Command => SessionKind::Command,
            Purpose::PubSub => SessionKind::PubSub,
        };
        let (pusher, pushes) = mpsc::unbounded_channel();
        let name = dial.login.client_name.as_deref();
        let connected = server.connect(kind, name, Pusher::Queue(pusher)).await;
        let Some(session) = connected else {
            let message = format!("{} refuses connections", dial.address);
            return Err(DialError {
                kind: DialErrorKind::Unreachable,
                message,
            });
        };
        Ok(Dialed {
            conn: Arc::new(EmbeddedConn::new(server, session)),
            pushes: Box::new(EmbeddedPushes(pushes)),
            // Replies have the types of RESP2.
            protocol: Protocol::Resp2,
        })
    }
}
