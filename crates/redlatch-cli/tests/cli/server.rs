//! A server inside of the test's own process.

use std::{ops::Deref, sync::Arc};

use redlatch::runtime::TokioRuntime;
use redlatch_embedded::{EmbeddedServer, Listening};

/// A server that listens.
pub(crate) struct Server {
    server: EmbeddedServer,
    listening: Listening,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let server = EmbeddedServer::new(Arc::new(TokioRuntime::current().unwrap()));
        let listening = server.listen("127.0.0.1:0").await.unwrap();
        Self { server, listening }
    }

    pub(crate) fn url(&self) -> String {
        self.listening.url()
    }
}

impl Deref for Server {
    type Target = EmbeddedServer;

    fn deref(&self) -> &EmbeddedServer {
        &self.server
    }
}
