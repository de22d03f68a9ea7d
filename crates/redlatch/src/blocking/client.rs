//! The constructors of a client with a background thread.

use std::ops::Deref;

use super::{background::Background, wait::Wait};
use crate::{ClientBuilder, Error};

/// A client with a background thread, for programs without async code.
///
/// The client derefs to [`redlatch::Client`](crate::Client), and has its methods. The client is
/// cheap to clone.
///
/// The thread ends when the last clone, handle and guard has gone, and the last release has been
/// answered, or given up at the end of its lease. The drop of the last of them waits for that end,
/// for at most one second.
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

impl Client {
    /// Connects to `url` with the default options.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::blocking::{Client, Wait};
    ///
    /// let client = Client::connect("redis://localhost")?;
    /// let guard = client.lock("orders:42").lock().wait()?;
    /// println!("held with token {}", guard.token());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Client::connect`](crate::Client::connect). `Unavailable` also if the thread
    /// cannot be started.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(ClientBuilder::new(url))
    }

    /// Connects to the address in the environment: that of `REDLATCH_URL`, or else of `REDIS_URL`.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::blocking::Client;
    ///
    /// // In the shell: REDLATCH_URL=redis://localhost
    /// let client = Client::from_env()?;
    /// println!("connected to {}", client.address());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` if neither is set. Otherwise as [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn from_env() -> Result<Self, Error> {
        Self::connect_with(ClientBuilder::from_env())
    }

    /// Connects with the options of a builder. The builder's `runtime` is replaced by the thread.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::{ClientBuilder, blocking::Client};
    ///
    /// let builder = ClientBuilder::new("redis://localhost").application("checkout");
    /// let client = Client::connect_with(builder)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn connect_with(builder: ClientBuilder) -> Result<Self, Error> {
        builder
            .runtime(Background::start()?)
            .connect()
            .wait()
            .map(Self)
    }

    /// Returns a client at once, which connects with its first call. See
    /// [`ClientBuilder::connect_lazy`](crate::common::ClientBuilder::connect_lazy). Works in async
    /// code, too.
    ///
    /// ```
    /// # fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::{ClientBuilder, blocking::Client};
    ///
    /// let builder = ClientBuilder::new("redis://localhost").application("checkout");
    /// let client = Client::connect_lazy(builder)?; // also while the server is down
    /// assert_eq!(client.address(), "localhost:6379");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`ClientBuilder::connect_lazy`](crate::common::ClientBuilder::connect_lazy).
    pub fn connect_lazy(builder: ClientBuilder) -> Result<Self, Error> {
        builder
            .runtime(Background::start()?)
            .connect_lazy()
            .map(Self)
    }

    /// Connects to a new server inside this process. Needs the feature `embedded`.
    ///
    /// ```
    /// # fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::blocking::{Client, Wait};
    ///
    /// let client = Client::embedded()?;
    /// let guard = client.lock("orders:42").lock().wait()?;
    /// assert!(client.lock("orders:42").try_lock().wait()?.is_none());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Unavailable` if the thread cannot be started.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[cfg(feature = "embedded")]
    #[track_caller]
    pub fn embedded() -> Result<Self, Error> {
        Self::connect_with(crate::embedded::Server::start().builder())
    }
}

/// For functions that take the client of the async API, such as `red_lock`.
impl From<Client> for crate::Client {
    fn from(client: Client) -> Self {
        client.0
    }
}

impl Deref for Client {
    type Target = crate::Client;

    fn deref(&self) -> &crate::Client {
        &self.0
    }
}
