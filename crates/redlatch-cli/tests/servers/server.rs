//! A real server for one test.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    thread,
};

use redlatch_tests::server::{self, ServerBinary, ServerOptions};

/// A server of its own, which ends with this value.
pub(crate) struct Server(server::Server);

impl Server {
    /// Starts one of the servers. The name of the test decides which, so that the tests are spread
    /// over all.
    pub(crate) async fn start() -> Self {
        let binaries = ServerBinary::all();
        let mut hasher = DefaultHasher::new();
        thread::current().name().hash(&mut hasher);
        let at = hasher.finish() % binaries.len() as u64;
        let binary = binaries.into_iter().nth(at as usize).unwrap();
        let start = move || server::Server::start(&binary, ServerOptions::new());
        Self(tokio::task::spawn_blocking(start).await.unwrap())
    }

    /// Sends a command, and returns the reply as text.
    pub(crate) fn command(&self, args: &[&str]) -> String {
        format!("{:?}", self.0.command(args))
    }

    /// Stops the process of the server.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }

    pub(crate) fn cont(&self) {
        self.0.cont();
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.0.address())
    }
}
