//! The blocking client and its constructors.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    background::Background,
    guard::LockGuard,
    iter::Iter,
    latch::CountDownLatch,
    lock::{FairLock, Lock, StripedLock},
    multi::{Lockable, MultiLock, RedLock},
    permits::PermitExpirableSemaphore,
    rwlock::ReadWriteLock,
    semaphore::Semaphore,
    stop::Stop,
};
use crate::{ClientBuilder, ClientId, Error, Forgotten, Health, Locks, Moment, Owner, Tables};

/// A client whose calls block, with a thread of its own for the background work.
///
/// The client is cheap to clone, and clones share the thread. The thread ends when the last clone,
/// handle and guard has gone.
#[derive(Clone)]
pub struct Client {
    inner: crate::Client,
    background: Arc<Background>,
}

impl Client {
    /// Connects to `url` with the default options.
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

    /// Connects with the options of a builder. Its `runtime` is not used, since this client has its
    /// own.
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
        let (background, runtime) = Background::start()?;
        let inner = background.wait(builder.runtime(runtime).connect())?;
        Ok(Self { inner, background })
    }

    /// Returns a client at once, which connects with its first call. See
    /// [`ClientBuilder::connect_lazy`](crate::common::ClientBuilder::connect_lazy). Works in async code, too.
    ///
    /// # Errors
    ///
    /// Those of [`ClientBuilder::connect_lazy`](crate::common::ClientBuilder::connect_lazy).
    pub fn connect_lazy(builder: ClientBuilder) -> Result<Self, Error> {
        let (background, runtime) = Background::start()?;
        let inner = builder.runtime(runtime).connect_lazy()?;
        Ok(Self { inner, background })
    }

    /// Connects to a new server inside this process. Needs the feature `embedded`.
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

    /// Returns the reentrant lock called `name`: 1 to 512 bytes of UTF-8. Does no I/O.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.inner.lock(name), &self.background)
    }

    /// Acquires the reentrant lock called `name`, runs `work` on this thread, and releases it. The
    /// work asks `stop` whether it may go on.
    ///
    /// # Errors
    ///
    /// Those of [`Lock::lock`]. `Lost` if the hold was lost before the work had ended. A release
    /// without an answer is no error, since the background repeats it.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn with_lock<T>(
        &self,
        name: impl AsRef<str>,
        work: impl FnOnce(&LockGuard, Stop<'_>) -> T,
    ) -> Result<T, Error> {
        let guard = self.lock(&name).lock()?;
        let done = guard.run(|stop| work(&guard, stop))?;
        match crate::client::lost_by(&guard.release()) {
            Some(cause) => Err(Error::lost(cause).about("lock", name.as_ref())),
            None => Ok(done),
        }
    }

    /// Returns `stripes` locks under `name` that serve any number of keys. Does no I/O.
    ///
    /// # Errors
    ///
    /// `InvalidOption` if `stripes` is zero.
    pub fn striped_lock(&self, name: impl AsRef<str>, stripes: u32) -> Result<StripedLock, Error> {
        let inner = self.inner.striped_lock(name, stripes)?;
        Ok(StripedLock::new(inner, &self.background))
    }

    /// Returns the fair lock called `name`: 1 to 512 bytes of UTF-8. Does no I/O.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> FairLock {
        FairLock::new(self.inner.fair_lock(name), &self.background)
    }

    /// Returns the read-write lock called `name`: 1 to 512 bytes of UTF-8. Does no I/O.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        ReadWriteLock::new(self.inner.read_write_lock(name), &self.background)
    }

    /// Returns the semaphore called `name`: 1 to 512 bytes of UTF-8. Does no I/O.
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.inner.semaphore(name), &self.background)
    }

    /// Returns the permit-expirable semaphore called `name`: 1 to 512 bytes of UTF-8. Does no I/O.
    pub fn permit_expirable_semaphore(&self, name: impl AsRef<str>) -> PermitExpirableSemaphore {
        let inner = self.inner.permit_expirable_semaphore(name);
        PermitExpirableSemaphore::new(inner, &self.background)
    }

    /// Returns the countdown latch called `name`: 1 to 512 bytes of UTF-8. Does no I/O.
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.inner.count_down_latch(name), &self.background)
    }

    /// Returns a lock over several members, which may belong to several clients:
    /// `client.multi_lock(&[&a, &b])`. Does no I/O.
    pub fn multi_lock(&self, members: &[&dyn Lockable]) -> MultiLock {
        MultiLock::new(&self.background, members)
    }

    /// Returns the lock called `name` over a majority of independent servers: this client's and
    /// those of `others`, at least two. Does no I/O. [`RedLock::of`] has more settings.
    pub fn red_lock(&self, name: impl AsRef<str>, others: &[Self]) -> RedLock {
        let clients: Vec<_> = others.iter().map(|other| other.inner.clone()).collect();
        let all = std::iter::once(self).chain(others);
        let threads: Vec<_> = all.map(|client| &client.background).collect();
        RedLock::new(self.inner.red_lock(name, &clients), &threads)
    }

    /// Returns the job called `name`. Needs the feature `once`. Does no I/O.
    #[cfg(feature = "once")]
    pub fn once(&self, name: impl AsRef<str>) -> super::Job {
        super::Job::new(self.inner.once(name), &self.background)
    }

    /// Returns the election called `name`. Needs the feature `election`. Does no I/O.
    #[cfg(feature = "election")]
    pub fn election(&self, name: impl AsRef<str>) -> super::Election {
        super::Election::new(self.inner.election(name), &self.background)
    }

    /// Returns the fence of the data at `key`, a key without the client's prefix. Needs the feature
    /// `fence`. Does no I/O.
    #[cfg(feature = "fence")]
    pub fn fence(&self, key: impl AsRef<str>) -> super::Fence {
        super::Fence::new(self.inner.fence(key), &self.background)
    }

    /// Finds the held locks whose name matches `pattern`. See
    /// [`Client::locks`](crate::Client::locks).
    pub fn locks(&self, pattern: &str) -> Iter<Locks> {
        Iter::new(self.inner.locks(pattern), &self.background)
    }

    /// Finds the held fair locks whose name matches `pattern`.
    pub fn fair_locks(&self, pattern: &str) -> Iter<Locks> {
        Iter::new(self.inner.fair_locks(pattern), &self.background)
    }

    /// Creates an owner that several acquisitions of this client can share.
    pub fn owner(&self) -> Owner {
        self.inner.owner()
    }

    /// Returns the identity of this client.
    pub fn id(&self) -> &ClientId {
        self.inner.id()
    }

    /// Returns the time of this client's clock.
    pub fn now(&self) -> Moment {
        self.inner.now()
    }

    /// Changes user and password of the servers, from the next connection on. Does no I/O.
    pub fn set_credentials(&self, username: Option<&str>, password: Option<&str>) {
        self.inner.set_credentials(username, password);
    }

    /// Returns the configured address of this client, without user and password.
    pub fn address(&self) -> &str {
        self.inner.address()
    }

    /// Returns the number of the database that this client uses.
    pub fn database(&self) -> u32 {
        self.inner.database()
    }

    /// Returns what the client knows about its connections. Sends no request.
    pub fn health(&self) -> Health {
        self.inner.health()
    }

    /// Returns the sizes of the client's tables at this instant.
    pub fn tables(&self) -> Tables {
        self.inner.tables()
    }

    /// Removes the record of `name` from the server if nobody uses it. See
    /// [`forget`](crate::Client::forget) of the async client.
    ///
    /// # Errors
    ///
    /// Those of `forget` of the async client.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn forget(&self, name: &str) -> Result<Forgotten, Error> {
        self.background.wait(self.inner.forget(name))
    }

    /// Asks the server for its time, and returns the time of the round trip. Costs one command.
    ///
    /// # Errors
    ///
    /// Those of `ping` of the async client.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn ping(&self) -> Result<Duration, Error> {
        self.background.wait(self.inner.ping())
    }

    /// Closes the client: rejects new work at once, tells every guard that its hold ends, gives the
    /// guards `grace` to finish, and then releases the remaining holds. Blocks until that is done.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn close(&self, grace: Duration) {
        self.background.wait(self.inner.close(grace));
    }

    /// Tells whether the client is closed or closing, or belongs to another process.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Blocks until every background release has been answered or given up.
    ///
    /// # Panics
    ///
    /// Panics in async code.
    #[track_caller]
    pub fn settled(&self) {
        self.background.wait(self.inner.settled());
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
