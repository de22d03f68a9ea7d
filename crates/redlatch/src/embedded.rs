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

use std::{sync::Arc, time::Duration};

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
#[derive(Clone, Debug)]
pub struct Server {
    engine: EmbeddedServer,
    runtime: Arc<dyn Runtime>,
}

impl Server {
    /// Starts an empty server on tokio's clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// use redlatch::embedded::Server;
    ///
    /// let (one, two) = (Server::start().client().await?, Server::start().client().await?);
    /// let guard = one.lock("orders:42").lock().await?;
    /// assert!(two.lock("orders:42").try_lock().await?.is_some(), "each server has its own locks");
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// let server = redlatch::embedded::Server::start();
    /// let tenant = server.builder().prefix("tenant-7").connect().await?;
    /// let other = server.builder().prefix("tenant-8").connect().await?;
    /// let guard = tenant.lock("report").lock().await?;
    /// assert!(other.lock("report").try_lock().await?.is_some(), "each prefix has its own locks");
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(&self) -> ClientBuilder {
        let transport = EmbeddedTransport::new().serve(NAME, self.engine.clone());
        ClientBuilder::at(Address::Embedded(NAME.to_owned()), Login::default())
            .transport(Arc::new(transport))
            .runtime(Arc::clone(&self.runtime))
    }

    /// Connects a client with the default options. Any number of clients may share a server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// let server = redlatch::embedded::Server::start();
    /// let (one, two) = (server.client().await?, server.client().await?); // as two processes
    /// let guard = one.lock("orders:42").lock().await?;
    /// assert!(two.lock("orders:42").try_lock().await?.is_none());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// use std::time::Duration;
    ///
    /// # let server = redlatch::embedded::Server::start();
    /// # let client = server.client().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// server.fail_next_renewal(); // due after 10 s
    /// tokio::time::sleep(Duration::from_secs(40)).await;
    /// assert!(guard.check().is_ok(), "the client has tried again");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_next_renewal(&self) {
        let text = redlatch_reentrant::renewal_script();
        let error = ServerError::parse("LOADING the server is not ready");
        self.engine.fail_next(calls::of_script(text), error);
    }

    /// Drops the next reply. The server executes the command, and its connection sends no further
    /// replies.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let server = redlatch::embedded::Server::start();
    /// # let client = server.client().await?;
    /// server.drop_next_reply();
    /// let guard = client.lock("orders:42").lock().await?; // the request is sent twice
    /// assert_eq!(client.lock("orders:42").hold_count(guard.owner()).await?, 1); // and counts once
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_next_reply(&self) {
        self.engine.drop_next_reply();
    }

    /// Stops the server for `span`. Connections stay open, and the server answers no request. It
    /// executes the requests of that time afterwards.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// use std::time::Duration;
    ///
    /// # let server = redlatch::embedded::Server::start();
    /// let client = server.builder().patience(Duration::from_secs(2)).connect().await?;
    /// server.stop_for(Duration::from_secs(60));
    /// let error = client.lock("orders:42").lock().await.unwrap_err();
    /// assert!(error.is_transient(), "try again later");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop_for(&self, span: Duration) {
        self.engine.stop_for(span);
    }

    /// Sets the server's clock forward, as an administrator would. The clients' clocks do not
    /// change, so leases end early without the holders' knowledge. To let time pass for server and
    /// clients, pause tokio's clock and sleep.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// use std::time::Duration;
    ///
    /// # let server = redlatch::embedded::Server::start();
    /// # let (one, two) = (server.client().await?, server.client().await?);
    /// let first = one.lock("orders:42").lock().await?;
    /// server.advance(Duration::from_secs(60)); // longer than the lease
    /// let second = two.lock("orders:42").lock().await?;
    /// assert!(first.check().is_ok(), "not even the first holder can know");
    /// assert!(second.token() > first.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&self, span: Duration) {
        self.engine.advance(span);
    }

    /// Returns the handle to all other functions: stored data, further failures, snapshots and
    /// restarts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let server = redlatch::embedded::Server::start();
    /// # let client = server.client().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// server.engine().restart_empty(); // no persistence
    /// let second = client.lock("orders:42").try_lock().await?;
    /// assert!(second.is_some(), "the server has forgotten the first holder");
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn engine(&self) -> &EmbeddedServer {
        &self.engine
    }
}

impl Client {
    /// Connects to a new server inside this process. Needs the feature `embedded`; see
    /// [`embedded`](self).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// use redlatch::Client;
    ///
    /// let client = Client::embedded().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// assert!(client.lock("orders:42").is_locked().await?);
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
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
