//! A client with a background thread, on which its renewals, releases and connections run.

use std::{
    convert::Infallible,
    io,
    ops::Deref,
    sync::Arc,
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use tokio::{runtime::Builder, sync::mpsc};

use super::wait::{Wait, block_on, in_async_code, is_polling};
use crate::{
    ClientBuilder, Error, ErrorKind, Moment, TokioRuntime,
    runtime::{BoxFuture, Runtime},
};

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
        let runtime = Background::start()?;
        builder.runtime(runtime).connect().wait().map(Self)
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
        let runtime = Background::start()?;
        builder.runtime(runtime).connect_lazy().map(Self)
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

/// A runtime on a thread. The client and its tasks keep a channel open, whose end shows that no
/// task is left, and ends the thread.
#[derive(Debug)]
struct Background {
    runtime: TokioRuntime,
    thread: ThreadId,
    task: mpsc::Sender<Infallible>,
}

impl Background {
    /// Starts the thread.
    fn start() -> Result<Arc<dyn Runtime>, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| no_thread(&error))?;
        let handle = runtime.handle().clone();
        let (task, mut tasks) = mpsc::channel(1);
        let thread = thread::Builder::new().name("redlatch".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async { while tasks.recv().await.is_some() {} });
            // A name that is being looked up must not delay the end of the thread.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(|error| no_thread(&error))?;
        Ok(Arc::new(Self {
            runtime: TokioRuntime::new(handle),
            thread: thread.thread().id(),
            task,
        }))
    }
}

impl Runtime for Background {
    fn now(&self) -> Moment {
        self.runtime.now()
    }

    fn sleep_until(&self, until: Moment) -> BoxFuture<()> {
        self.runtime.sleep_until(until)
    }

    fn spawn(&self, name: &'static str, future: BoxFuture<()>) {
        let task = self.task.clone();
        let counted = async move {
            let _task = task;
            future.await;
        };
        self.runtime.spawn(name, Box::pin(counted));
    }

    fn random(&self) -> u64 {
        self.runtime.random()
    }

    /// The end of `main` must not overtake a release. Where a future is polled, the caller of
    /// [`Wait::wait`](super::Wait::wait) gets its result without a delay.
    fn lingers(&self) -> bool {
        thread::current().id() != self.thread && !is_polling() && !in_async_code()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a limit for a thread that sleeps, not for a hold"
    )]
    fn linger(&self, end: BoxFuture<()>) {
        block_on(end, Some(Instant::now() + LINGER));
    }
}

fn no_thread(error: &io::Error) -> Error {
    let text = format!("the client's thread cannot be started: {error}");
    Error::new(ErrorKind::Unavailable, text)
}

/// How long the drop of a guard waits for the answer to its release, and that of the last handle
/// for the end of all background work.
const LINGER: Duration = Duration::from_secs(1);
