//! A real server for one test.

use redlatch_tests::server::{self, ServerBinary, ServerOptions};

use crate::support::World;

/// A server of its own, which ends with this value.
pub(crate) struct Server(server::Server);

/// Runs a test on every server, one after the other.
pub(crate) async fn on_every<R: Future<Output = ()>>(mut test: impl FnMut(World) -> R) {
    for binary in ServerBinary::all() {
        println!("on {binary:?}");
        test(Server::start(binary, ServerOptions::new()).await).await;
    }
}

impl Server {
    pub(crate) async fn start(binary: ServerBinary, options: ServerOptions) -> World {
        let start = move || server::Server::start(&binary, options);
        World::on(Self(tokio::task::spawn_blocking(start).await.unwrap()))
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
