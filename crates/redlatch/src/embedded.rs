//! A server inside this process: the same client and the same scripts, but no network.
//! Needs the feature `embedded`.
//!
//! It serves programs that run alone, and above all tests of a service: its behaviour while it
//! waits, when the server is slow or unreachable, and when it loses a lock. The server uses tokio's
//! clock, so that leases end at once in a test with `start_paused`.
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
//! guard.extend(Duration::from_secs(60)).await?; // waits until the short outage is over
//!
//! server.lose("orders:42");
//! assert_eq!(guard.lost().await, LossCause::Forgotten); // reported by the next renewal
//! # Ok(())
//! # }
//! ```
//!
//! Its locks exclude only the tasks of this process, and no data outlives the process.

use std::{fmt, sync::Arc, time::Duration};

use redlatch_core::{
    Error,
    family::{Key, Name, Prefix},
    runtime::{Address, Login, Runtime, ServerError},
};
pub use redlatch_embedded::{
    EmbeddedServer, EmbeddedTransport, LostReply, Model, SteppedRuntime, calls, engine,
};

use crate::{Client, ClientBuilder};

/// A server inside this process. The handle is cheap to clone. The server lives as long as one of
/// its handles or clients.
#[derive(Clone)]
pub struct Server {
    engine: EmbeddedServer,
    runtime: Arc<dyn Runtime>,
}

impl Server {
    /// Starts an empty server on tokio's clock.
    ///
    /// # Panics
    ///
    /// Clients of the server panic outside of a tokio runtime.
    pub fn start() -> Self {
        let runtime: Arc<dyn Runtime> = Arc::new(SteppedRuntime::new());
        Self {
            engine: EmbeddedServer::new(Arc::clone(&runtime)),
            runtime,
        }
    }

    /// Returns a builder of a client of this server, on the same clock.
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
    /// As [`Client::connect`], if a failure is injected into the server.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves no connection behind.
    pub async fn client(&self) -> Result<Client, Error> {
        self.builder().connect().await
    }

    /// Deletes the object called `name` under the default prefix, as a flush or a restart without
    /// persistence would. Returns whether the object existed. The guard of the holder is lost
    /// at its next renewal.
    ///
    /// The server's clock moves on by a microsecond, since a restart takes time. So the next token
    /// is greater than the last one, also in a test with a paused clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// let server = redlatch::embedded::Server::start();
    /// let client = server.client().await?;
    /// let before = client.lock("orders:42").lock().await?;
    /// server.lose("orders:42");
    /// let after = server.client().await?.lock("orders:42").lock().await?;
    /// assert!(after.token() > before.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lose(&self, name: &str) -> bool {
        self.engine.advance(Duration::from_micros(1));
        let key = Name::parse(name).map(|name| Key::new(&Prefix::default(), &name));
        key.is_ok_and(|key| self.engine.delete_key(key.as_str()))
    }

    /// Answers the next renewal of a plain lock with an error and does not execute it.
    pub fn fail_next_renewal(&self) {
        let text = redlatch_reentrant::renewal_script();
        self.engine.fail_next(
            calls::of_script(text),
            ServerError::parse("LOADING the server is not ready"),
        );
    }

    /// Drops the next reply. The server executes the command, and its connection sends no further
    /// replies.
    pub fn drop_next_reply(&self) {
        self.engine.drop_next_reply();
    }

    /// Stops the server for `span`. Connections stay open, and the server answers no request. It
    /// executes the requests of that time afterwards.
    pub fn stop_for(&self, span: Duration) {
        self.engine.stop_for(span);
    }

    /// Sets the server's clock forward, as an administrator would. The clients' clocks do not
    /// change, so leases end early without the holders' knowledge. To let time pass for server and
    /// clients, pause tokio's clock and sleep.
    pub fn advance(&self, span: Duration) {
        self.engine.advance(span);
    }

    /// Returns the handle to all other functions: stored data, further failures, snapshots and
    /// restarts.
    pub const fn engine(&self) -> &EmbeddedServer {
        &self.engine
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a new server inside this process. Needs the feature `embedded`; see
    /// [`embedded`](self).
    ///
    /// # Errors
    ///
    /// No error is expected.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves no connection behind.
    pub async fn embedded() -> Result<Self, Error> {
        Server::start().client().await
    }
}

/// The name under which the transport knows its only server.
const NAME: &str = "this process";
