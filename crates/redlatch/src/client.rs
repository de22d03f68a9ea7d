//! The client with one constructor per primitive.

use std::ops::Deref;

use redlatch_core::{Error, Lockable, LossCause, Released, exclusive::Locks};
#[cfg(feature = "election")]
use redlatch_election::Election;
use redlatch_fair::FairLock;
#[cfg(feature = "fence")]
use redlatch_fence::Fence;
use redlatch_latch::CountDownLatch;
use redlatch_limit::RateLimiter;
use redlatch_multi::{MultiLock, RedLock};
#[cfg(feature = "once")]
use redlatch_once::Job;
use redlatch_permits::PermitExpirableSemaphore;
use redlatch_reentrant::{Lock, LockGuard, StripedLock};
use redlatch_rwlock::ReadWriteLock;
use redlatch_semaphore::Semaphore;

/// A builder for a [`Client`]: the address, the options, and then
/// [`connect`](crate::common::ClientBuilder::connect) or
/// [`connect_lazy`](crate::common::ClientBuilder::connect_lazy).
///
/// [`common::ClientBuilder`](crate::common::ClientBuilder) documents each method. `connect` returns
/// `InvalidOption` or `InvalidLease` for an option that is out of bounds.
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch::Error> {
/// use std::time::Duration;
/// use redlatch::Client;
///
/// let client = Client::builder("rediss://redis.example:6380")
///     .credentials(Some("app"), Some("secret"))
///     .prefix("shop")
///     .application("checkout")
///     .default_lease(Duration::from_secs(10)) // a dead process frees its locks after 10 s
///     .patience(Duration::from_secs(2)) // without the server, calls fail after 2 s
///     .connect_timeout(Duration::from_secs(1))
///     .long_wait(Duration::from_secs(1)) // log acquisitions that wait for 1 s
///     .max_waiters(1_000)
///     .clock_drift(0.02)
///     .token_retention(Duration::from_secs(3600))
///     .connect()
///     .await?;
/// # client.close_now().await;
/// # Ok(())
/// # }
/// ```
///
/// | beginning | |
/// |---|---|
/// | `new(url)`, [`Client::builder`] | from an address, which may have options as parameters |
/// | `from_env()` | from `REDLATCH_URL`, or else `REDIS_URL` |
/// | `at(address, login)` | from an address and a login |
/// | `cluster(nodes)`, `sentinel(service, sentinels)`, `replicas(servers)` | from lists of servers |
///
/// | option | default | bounds |
/// |---|---|---|
/// | `prefix` of all keys and channels | `redlatch` | 1 to 64 bytes without braces, `@`, white space and glob characters |
/// | `default_lease`, which is renewed | 30 s | 1 s to 365 days |
/// | `wait_strategy` | [`WaitStrategy::Notify`](crate::WaitStrategy::Notify) | |
/// | `clock_drift` of any clock from true time | 0.01 | 0 to 0.2 |
/// | `server_clock_allowance` for servers that take over from each other | 0 for one server, otherwise 1 s | 0 to 1 hour |
/// | `token_retention` of a freed name's token | 10 minutes | 10 s to 365 days |
/// | `patience` without an answer | 10 s | 100 ms to 1 day |
/// | `fail_fast`, after which calls are refused without a connection | off | 100 ms to 1 day |
/// | `long_wait`, after which an acquisition is logged | 5 s | 10 ms to 365 days |
/// | `connect_timeout` of `connect`, and of each later connection | 3 s | 10 ms to 1 minute |
/// | `max_waiters`, acquisitions at the same time | 100,000 | |
/// | `application`, shown with each hold | the name of the executable | |
/// | `client_name` in `CLIENT LIST` | `redlatch` | |
/// | `self_check` of version, eviction policy and rights | on | |
/// | `watch_keys`, to learn at once of a deleted key | off | RESP3 |
/// | `credentials` of the servers | those of the address | |
/// | `credentials_from` a provider, for tokens that expire | none | |
/// | `database` | that of the address, or 0 | the server's; 0 for a cluster |
/// | `sentinel_credentials` | those of the address | |
/// | `announced_as`, for nodes behind address translation | none | `host:port`, once per node |
/// | `tls` certificates | the system's roots | for `rediss://` |
/// | `sentinel_tls`, if those of the sentinels differ | as `tls` | for sentinels of `rediss://` |
/// | `runtime` of the background work | the tokio runtime that connects | |
/// | `transport` | the network | |
pub type ClientBuilder = redlatch_core::ClientBuilder<Client>;

/// A client of one server, with all holds that the process has through it.
///
/// The client is cheap to clone. Dropping the last clone, handle or guard ends its background work,
/// after the holds of dropped guards have been released.
///
/// Use one client per process and server. All locks share its connections, its renewals and its
/// subscription.
///
/// # Handles and names
///
/// A method such as [`lock`](Self::lock) creates a handle. A handle is cheap to create and to
/// clone, and its creation sends no request. A name is 1 to 512 bytes of UTF-8. The first call that
/// sends a request reports an invalid name as `InvalidName`. In a cluster, names with the same
/// well-formed `{tag}` share a hash slot.
///
/// # Methods of every client
///
/// These methods come from [`common::Client`](crate::common::Client):
///
/// | method | does |
/// |---|---|
/// | [`close`](Client#method.close) | releases all holds and ends the client, as the last call of a program |
/// | [`owner`](Client#method.owner) | creates an owner, to re-enter locks |
/// | [`health`](Client#method.health), [`ping`](Client#method.ping) | check the connections, for probes |
/// | [`tables`](Client#method.tables) | counts holds and waiters, for tests |
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// # let client: redlatch::Client = client;
/// use std::time::Duration;
///
/// let first = client.lock("orders:42").lock().await?;
/// let nested = client.lock("orders:42").lock().owner(first.owner()).await?; // re-entry
/// assert!(client.health().is_connected());
/// println!("a round trip takes {:?}", client.ping().await?);
///
/// drop((first, nested));
/// client.close(Duration::from_secs(5)).await; // waits for the releases
/// assert!(client.lock("orders:42").lock().await.is_err());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[doc(alias("RedissonClient", "redsync", "connection"))]
#[derive(Clone, Debug)]
pub struct Client(redlatch_core::Client);

impl Client {
    /// Connects to `url` with the default options:
    /// `redis://[user[:password]@]host[:port][/database]`, `rediss://…` for TLS, `unix:///path`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// let client = Client::connect("redis://:secret@redis.example:6379/1").await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` for an invalid address. Otherwise as
    /// [`ClientBuilder::connect`](crate::common::ClientBuilder::connect).
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves no connection behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url).connect().await
    }

    /// Connects to the address in the environment: that of `REDLATCH_URL`, or else of `REDIS_URL`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// // In the shell: REDLATCH_URL=redis://localhost
    /// let client = Client::from_env().await?;
    /// println!("connected to {}", client.address());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` if neither variable is set, or for an invalid address. Otherwise as
    /// [`ClientBuilder::connect`](crate::common::ClientBuilder::connect).
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves no connection behind.
    pub async fn from_env() -> Result<Self, Error> {
        ClientBuilder::from_env().connect().await
    }

    /// Returns a builder of a client for `url`, to set options.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::Client;
    ///
    /// let builder = Client::builder("redis://localhost").patience(Duration::from_secs(2));
    /// let client = builder.prefix("shop").connect_lazy()?; // or connect().await?
    /// assert_eq!(client.address(), "localhost:6379");
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Returns the reentrant lock called `name`.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// println!("held with token {}", guard.token());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[doc(alias("mutex", "getLock", "redlock"))]
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(&self.0, name)
    }

    /// Acquires the reentrant lock called `name`, runs `work` while the lock is held, and releases
    /// the lock. `work` receives the guard, for its token and its deadline.
    ///
    /// If the hold is lost, `work` is dropped at its next await, as by
    /// [`Held::run`](crate::Held::run). Costs two commands if the lock is free.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let sum = client.with_lock("orders:42", async |guard| {
    ///     println!("held with token {}", guard.token());
    ///     40 + 2
    /// });
    /// assert_eq!(sum.await?, 42);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Lock::lock`]. `Lost` if the hold is lost before `work` is done, or if the server
    /// had ended the hold before the release. A release without an answer is not an error, since
    /// the client repeats it in the background.
    ///
    /// # Cancel safety
    ///
    /// A dropped future drops `work` and releases in the background.
    #[doc(alias = "synchronized")]
    pub async fn with_lock<T>(
        &self,
        name: impl AsRef<str>,
        work: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<T, Error> {
        let lock = self.lock(name);
        let guard = lock.lock().await?;
        let done = guard.run(work(&guard)).await?;
        // The server had ended the hold before its release.
        let cause = match guard.release().await {
            Ok(Released::Expired) => LossCause::Expired,
            Ok(Released::TakenOver) => LossCause::Taken,
            Ok(Released::Revoked) => LossCause::Revoked,
            Ok(Released::Forgotten) => LossCause::Forgotten,
            _ => return Ok(done),
        };
        Err(Error::lost(cause).about("lock", lock.name().unwrap_or_default()))
    }

    /// Returns `stripes` locks under `name` for any number of keys. Each key belongs to one of the
    /// locks, which is the same in every process.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let tenants = client.striped_lock("tenants", 256)?;
    /// let guard = tenants.of("tenant:4711").lock().await?;
    /// assert!(tenants.of("tenant:4711").try_lock().await?.is_none());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` if `stripes` is zero.
    pub fn striped_lock(&self, name: impl AsRef<str>, stripes: u32) -> Result<StripedLock, Error> {
        StripedLock::new(&self.0, name, stripes)
    }

    /// Returns a lock over several members, which may belong to several clients. The first
    /// acquisition reports invalid members.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (from, to) = (client.lock("account:7"), client.lock("account:9"));
    /// let both = client.multi_lock(&[&from, &to]).lock().await?;
    /// assert!(from.is_locked().await? && to.is_locked().await?);
    /// # drop(both);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub fn multi_lock(&self, members: &[&dyn Lockable]) -> MultiLock {
        MultiLock::new(members)
    }

    /// Returns the lock called `name` over a majority of independent servers: this client's server
    /// and those of `others`. Pass at least two other clients.
    ///
    /// The first acquisition reports invalid arguments. [`RedLock::builder`] has more settings.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # use redlatch::ClientBuilder;
    /// # use redlatch::embedded::{EmbeddedServer, EmbeddedTransport, SteppedRuntime};
    /// # use redlatch::runtime::{Address, Login};
    /// # let runtime = std::sync::Arc::new(SteppedRuntime::new());
    /// # let node = async |host: &str| {
    /// #     let server = EmbeddedServer::new(runtime.clone());
    /// #     let transport = EmbeddedTransport::new().serve(host, server);
    /// #     let builder = ClientBuilder::at(Address::Embedded(host.to_owned()), Login::default());
    /// #     let builder = builder.transport(std::sync::Arc::new(transport));
    /// #     builder.runtime(runtime.clone()).connect().await
    /// # };
    /// # let (one, two, three) = (node("one").await?, node("two").await?, node("three").await?);
    /// # tokio::time::sleep(std::time::Duration::from_secs(60)).await; // longer than a lease
    /// let billing = one.red_lock("billing", &[two, three]); // three clients
    /// let guard = billing.lock().await?;
    /// assert!(guard.nodes_held() >= 2, "a majority");
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[doc(alias("redlock", "getRedLock"))]
    pub fn red_lock(&self, name: impl AsRef<str>, others: &[Self]) -> RedLock {
        let name = name.as_ref();
        let clients = std::iter::once(self).chain(others);
        let locks: Vec<_> = clients.map(|client| client.lock(name)).collect();
        let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
        RedLock::new(&nodes)
    }

    /// Returns the countdown latch called `name`.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let imported = client.count_down_latch("import:tables");
    /// imported.try_set_count(2).await?;
    /// let (orders, invoices) = (imported.count_down(1), imported.count_down(1));
    /// tokio::try_join!(orders, invoices)?;
    /// imported.wait().await?; // until both tables are imported
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[doc(alias("getCountDownLatch", "barrier"))]
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(&self.0, name)
    }

    /// Returns the rate limiter called `name`, or a family of limiters. Set its rate before you use
    /// it.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let api = client.rate_limiter("api").rate(100, Duration::from_secs(1)).burst(20);
    /// let pass = api.key("tenant-7").acquire(1).await?; // waits while the tenant is too fast
    /// assert_eq!(pass.remaining(), 19);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[doc(alias("getRateLimiter", "throttle"))]
    pub fn rate_limiter(&self, name: impl AsRef<str>) -> RateLimiter {
        RateLimiter::new(&self.0, name)
    }

    /// Returns the job called `name`. Each slot of its schedule runs once, over all processes.
    /// Needs the feature `once`.
    ///
    /// ```
    /// # #[cfg(all(feature = "embedded", feature = "once"))]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::once::JobRun;
    ///
    /// let invoices = client.once("invoices").every(Duration::from_secs(24 * 3600));
    /// let send = async |_: &JobRun| Ok::<_, String>("sent");
    /// assert_eq!(invoices.run(send).await?.ran(), Some("sent"));
    /// assert_eq!(invoices.run(send).await?.ran(), None); // once a day
    /// # Ok(())
    /// # }
    /// # #[cfg(not(all(feature = "embedded", feature = "once")))]
    /// # fn main() {}
    /// ```
    #[doc(alias("cron", "job"))]
    #[cfg(feature = "once")]
    pub fn once(&self, name: impl AsRef<str>) -> Job {
        Job::new(&self.0, name)
    }

    /// Returns the semaphore called `name`.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let exports = client.semaphore("exports").permits_if_unset(2);
    /// let permits = (exports.acquire().await?, exports.acquire().await?);
    /// assert!(exports.try_acquire().await?.is_none(), "two at a time");
    /// # drop(permits);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[doc(alias("getSemaphore", "limit"))]
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(&self.0, name)
    }

    /// Returns the permit-expirable semaphore called `name`.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let slots = client.permit_expirable_semaphore("render").permits_if_unset(4);
    /// let id = slots.acquire().lease(Duration::from_secs(60)).await?;
    /// println!("for the worker: {id}"); // the worker returns the permit
    /// assert_eq!(slots.available_permits().await?, 3);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[doc(alias = "getPermitExpirableSemaphore")]
    pub fn permit_expirable_semaphore(&self, name: impl AsRef<str>) -> PermitExpirableSemaphore {
        PermitExpirableSemaphore::new(&self.0, name)
    }

    /// Returns a stream of the held locks whose name matches `pattern` (`*`, `?`, `[a-z]`, `\` to
    /// escape), with holder, age and remaining lease.
    ///
    /// Each step of the stream reads a bounded number of keys. The whole stream visits all keys of
    /// the server, at the cost that [`Locks`] describes. Use the stream for a monitor of long-held
    /// locks; see the example `monitor`.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// let mut locks = client.locks("orders:*");
    /// while let Some(lock) = locks.next().await {
    ///     let lock = lock?;
    ///     println!("{} is held for {:?} by {:?}", lock.info.name, lock.info.age, lock.metadata);
    ///     # assert_eq!(lock.info.token, guard.token());
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub fn locks(&self, pattern: &str) -> Locks {
        redlatch_reentrant::locks(&self.0, pattern)
    }

    /// Returns the fair lock called `name`.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let printer = client.fair_lock("printer");
    /// let first = printer.lock().await?;
    /// let second = tokio::spawn(printer.lock().into_future()); // before all later callers
    /// first.release().await?;
    /// second.await.expect("no panic")?.release().await?;
    /// # assert!(!printer.is_locked().await?);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[doc(alias("getFairLock", "queue"))]
    pub fn fair_lock(&self, name: impl AsRef<str>) -> FairLock {
        FairLock::new(&self.0, name)
    }

    /// Returns the read-write lock called `name`.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let (one, two) = (prices.read().await?, prices.read().await?);
    /// assert!(prices.try_write().await?.is_none(), "readers exclude the writer");
    /// # drop((one, two));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[doc(alias("rwlock", "getReadWriteLock"))]
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        ReadWriteLock::new(&self.0, name)
    }

    /// Returns the election called `name`. Needs the feature `election`.
    ///
    /// ```
    /// # #[cfg(all(feature = "embedded", feature = "election"))]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let candidate = client.election("billing-worker");
    /// candidate.lead(async |term| {
    ///     println!("the only worker, with token {}", term.token());
    /// }).await?;
    /// assert!(candidate.leader().await?.is_none(), "the work is done");
    /// # Ok(())
    /// # }
    /// # #[cfg(not(all(feature = "embedded", feature = "election")))]
    /// # fn main() {}
    /// ```
    #[doc(alias = "leader")]
    #[cfg(feature = "election")]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(&self.0, name)
    }

    /// Returns the fence of the data at `key`, a key without the client's prefix. Needs the feature
    /// `fence`.
    ///
    /// ```
    /// # #[cfg(all(feature = "embedded", feature = "fence"))]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("stock:42").lock().await?;
    /// let stock = client.fence("stock:42:count");
    /// assert!(stock.set(guard.token(), "10").await?.is_written());
    /// assert_eq!(stock.mark().await?, Some(guard.token())); // refuses lower tokens
    /// # Ok(())
    /// # }
    /// # #[cfg(not(all(feature = "embedded", feature = "fence")))]
    /// # fn main() {}
    /// ```
    #[doc(alias = "fencing token")]
    #[cfg(feature = "fence")]
    pub fn fence(&self, key: impl AsRef<str>) -> Fence {
        Fence::new(&self.0, key)
    }

    /// Returns a stream of the held fair locks, as [`locks`](Self::locks) does for plain locks.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.fair_lock("orders:42").lock().await?;
    /// let mut locks = client.fair_locks("orders:*");
    /// while let Some(lock) = locks.next().await {
    ///     let lock = lock?;
    ///     println!("{} is held, and {} callers wait", lock.info.name, lock.info.waiters);
    ///     # assert_eq!(lock.info.token, guard.token());
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub fn fair_locks(&self, pattern: &str) -> Locks {
        redlatch_fair::fair_locks(&self.0, pattern)
    }
}

impl From<redlatch_core::Client> for Client {
    fn from(client: redlatch_core::Client) -> Self {
        Self(client)
    }
}

/// Gives access to the common functions of all primitives: owners, `close`, and the tables.
impl Deref for Client {
    type Target = redlatch_core::Client;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
