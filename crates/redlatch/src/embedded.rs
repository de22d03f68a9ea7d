//! A server inside this process: the same client and the same scripts as over a network, without
//! one. Needs the feature `embedded`.
//!
//! It is for programs that run alone, and above all for tests: of what your service does when it
//! waits, when the server is slow or gone, and when it loses a lock. Its clock is tokio's, so in a
//! test with `start_paused` leases end at once.
//!
//! ```
//! use std::time::Duration;
//! use redlatch::{LossCause, embedded::Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), redlatch::Error> {
//! # tokio::time::pause();
//! let server = Server::start();
//! let client = server.client().await?;
//! let guard = client.lock("orders:42").lock().await?;
//!
//! server.stop_for(Duration::from_secs(3));
//! guard.extend(Duration::from_secs(60)).await?; // a short outage is waited for
//!
//! server.lose("orders:42");
//! assert_eq!(guard.lost().await, LossCause::Forgotten); // told by the next renewal
//! # Ok(())
//! # }
//! ```
//!
//! Locks in it exclude the tasks of this process only, and nothing outlives the process.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Error, Prefix,
    family::{Key, Name},
    runtime::{Address, Login, Runtime, ServerError},
};
pub use redlatch_embedded::{
    EmbeddedServer, EmbeddedTransport, LostReply, Model, SteppedRuntime, calls, engine,
};

use crate::{Client, ClientBuilder};

/// A server inside this process. Cheap to clone; it lives as long as a clone or a client of it
/// does.
#[derive(Clone, Debug)]
pub struct Server {
    engine: EmbeddedServer,
    runtime: Arc<dyn Runtime>,
}

impl Server {
    /// Starts an empty server on tokio's clock.
    ///
    /// # Panics
    ///
    /// Clients of it panic outside of a tokio runtime.
    pub fn start() -> Self {
        let runtime: Arc<dyn Runtime> = Arc::new(SteppedRuntime::new());
        Self {
            engine: EmbeddedServer::new(Arc::clone(&runtime)),
            runtime,
        }
    }

    /// Starts to build a client of this server, on the same clock.
    pub fn builder(&self) -> ClientBuilder {
        let transport = EmbeddedTransport::new().serve(NAME, self.engine.clone());
        ClientBuilder::at(Address::Embedded(NAME.to_owned()), Login::default())
            .transport(Arc::new(transport))
            .runtime(Arc::clone(&self.runtime))
    }

    /// Connects a client with the default options. Any number of clients may share a server.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`], when the server has been told to make trouble.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves no connection behind.
    pub async fn client(&self) -> Result<Client, Error> {
        self.builder().connect().await
    }

    /// Makes the server forget the object called `name` under the default prefix, as a flush or a
    /// restart without persistence would; tells whether there was one. Its holder is told by its
    /// next renewal.
    pub fn lose(&self, name: &str) -> bool {
        let key = Name::parse(name).map(|name| Key::new(&Prefix::default(), &name));
        key.is_ok_and(|key| self.engine.delete_key(key.as_str()))
    }

    /// Answers the next renewal of a plain lock with an error, without running it.
    pub fn fail_next_renewal(&self) {
        let text = redlatch_reentrant::renewal_script();
        self.engine.fail_next(
            calls::of_script(text),
            ServerError::parse("LOADING the server is not ready"),
        );
    }

    /// Loses the next reply: the command runs, and its connection says no more.
    pub fn drop_next_reply(&self) {
        self.engine.drop_next_reply();
    }

    /// Stops the server for `span`: connections stay, nothing is answered, and what is sent
    /// meanwhile runs afterwards.
    pub fn stop_for(&self, span: Duration) {
        self.engine.stop_for(span);
    }

    /// Sets the server's clock forward, as an administrator would. The clients' clocks stay: leases
    /// end early and nobody knows. To let time pass for everybody, pause tokio's clock and sleep.
    pub fn advance(&self, span: Duration) {
        self.engine.advance(span);
    }

    /// Returns the handle to everything else: what is stored, more trouble, snapshots and restarts.
    pub const fn engine(&self) -> &EmbeddedServer {
        &self.engine
    }
}

impl Client {
    /// Connects to a server of its own inside this process. Needs the feature `embedded`; see
    /// [`embedded`](self).
    ///
    /// # Errors
    ///
    /// None that can be expected.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves nothing behind.
    pub async fn embedded() -> Result<Self, Error> {
        Server::start().client().await
    }
}

/// What the transport calls the only server it knows.
const NAME: &str = "this process";
