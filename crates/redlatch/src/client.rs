//! The client with a constructor per primitive.

use std::ops::Deref;

use redlatch_core::{Error, Lockable, exclusive::Locks};
use redlatch_fair::FairLock;
use redlatch_latch::CountDownLatch;
use redlatch_multi::{MultiLock, RedLock};
use redlatch_permits::PermitExpirableSemaphore;
use redlatch_reentrant::{Lock, StripedLock};
use redlatch_rwlock::ReadWriteLock;
use redlatch_semaphore::Semaphore;

/// Builds a [`Client`].
pub type ClientBuilder = redlatch_core::ClientBuilder<Client>;

/// A connection to one server and everything held through it. Cheap to clone; the last clone,
/// handle or guard that goes ends its background work, after what guards left behind has been
/// released.
///
/// One client per process and server is right: all locks share its connections, its watchdog and
/// its subscription.
///
/// It derefs to the core's [`Client`](redlatch_core::Client), which has what all primitives share: owners, [`close`](redlatch_core::Client::close), the
/// tables.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch::Error> {
/// use std::time::Duration;
/// use redlatch::Client;
///
/// let client = Client::builder("rediss://app:secret@redis.example:6380")
///     .prefix("shop")
///     .default_lease(Duration::from_secs(10))
///     .application("checkout")
///     .connect()
///     .await?;
/// let guard = client.lock("orders:42").lock().await?;
/// drop(guard);
/// client.close(Duration::from_secs(5)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client(redlatch_core::Client);

impl Client {
    /// Connects to `url` with the default options:
    /// `redis://[user[:password]@]host[:port][/database]`, `rediss://…` for TLS, `unix:///path`.
    ///
    /// # Errors
    ///
    /// `InvalidOption` for an address that cannot be understood; otherwise as
    /// [`ClientBuilder::connect`](redlatch_core::ClientBuilder::connect).
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves no connection behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url).connect().await
    }

    /// Starts to build a client for `url`, to set options.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Returns the reentrant lock called `name`: 1 to 512 bytes of UTF-8. Does no I/O; a name that
    /// is not allowed is told by the first call.
    pub fn lock(&self, name: &str) -> Lock {
        Lock::new(&self.0, name)
    }

    /// Returns `stripes` locks under `name` that stand for any number of keys: each key belongs to
    /// one of them, the same in every process. Does no I/O.
    ///
    /// # Errors
    ///
    /// `InvalidOption` for no stripes.
    pub fn striped_lock(&self, name: &str, stripes: u32) -> Result<StripedLock, Error> {
        StripedLock::new(&self.0, name, stripes)
    }

    /// Returns a lock over several things, which may be of several clients:
    /// `client.multi_lock(&[&a, &b])`. Does no I/O; what is wrong with it is told by the first
    /// acquisition.
    pub fn multi_lock(&self, members: &[&dyn Lockable]) -> MultiLock {
        MultiLock::new(members)
    }

    /// Returns the lock called `name` over a majority of independent servers: this client's and
    /// those of `others`, two at least. Does no I/O; what is wrong with it is told by the first
    /// acquisition. [`RedLock::builder`] has more settings.
    pub fn red_lock(&self, name: &str, others: &[Self]) -> RedLock {
        let locks: Vec<_> = std::iter::once(self)
            .chain(others)
            .map(|client| client.lock(name))
            .collect();
        let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
        RedLock::new(&nodes)
    }

    /// Returns the countdown latch called `name`: 1 to 512 bytes of UTF-8. Does no I/O; a name that
    /// is not allowed is told by the first call.
    pub fn countdown_latch(&self, name: &str) -> CountDownLatch {
        CountDownLatch::new(&self.0, name)
    }

    /// Returns the semaphore called `name`: 1 to 512 bytes of UTF-8. Does no I/O; a name that is
    /// not allowed is told by the first call.
    pub fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore::new(&self.0, name)
    }

    /// Returns the permit-expirable semaphore called `name`: 1 to 512 bytes of UTF-8. Does no I/O;
    /// a name that is not allowed is told by the first call.
    pub fn permit_expirable_semaphore(&self, name: &str) -> PermitExpirableSemaphore {
        PermitExpirableSemaphore::new(&self.0, name)
    }

    /// Finds the locks that somebody holds and whose name matches `pattern` (`*`, `?`, `[a-z]`, `\`
    /// to escape), with holder, age and time left.
    ///
    /// A stream that looks at a bounded number of keys per step, and costs what [`Locks`] says: it
    /// walks over all keys of the server. It is what a monitor of long-held locks needs; see the
    /// example `monitor`.
    pub fn locks(&self, pattern: &str) -> Locks {
        redlatch_reentrant::locks(&self.0, pattern)
    }

    /// Returns the fair lock called `name`: 1 to 512 bytes of UTF-8. Does no I/O; a name that is
    /// not allowed is told by the first call.
    pub fn fair_lock(&self, name: &str) -> FairLock {
        FairLock::new(&self.0, name)
    }

    /// Returns the read-write lock called `name`: 1 to 512 bytes of UTF-8. Does no I/O; a name that
    /// is not allowed is told by the first call.
    pub fn read_write_lock(&self, name: &str) -> ReadWriteLock {
        ReadWriteLock::new(&self.0, name)
    }

    /// Finds the fair locks that somebody holds, as [`locks`](Self::locks) finds plain ones.
    pub fn fair_locks(&self, pattern: &str) -> Locks {
        redlatch_fair::fair_locks(&self.0, pattern)
    }
}

impl From<redlatch_core::Client> for Client {
    fn from(client: redlatch_core::Client) -> Self {
        Self(client)
    }
}

/// What every primitive's client can do: owners, closing, a look at the tables.
impl Deref for Client {
    type Target = redlatch_core::Client;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
