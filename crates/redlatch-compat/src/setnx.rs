//! The handle of a lock in the layout that several libraries share.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Acquire, Client, Error, Lockable, Member, TryAcquire, TryAcquireFor,
    family::{Handle, Primitive},
};

use crate::{
    UnfencedGuard,
    scripts::{
        Names,
        setnx::{self, SetNxName},
    },
};

/// A lock in the layout of redis-py, redsync, bsm/redislock, node-redlock and rslock: a string
/// under the name itself, without the client's prefix, whose value belongs to the holder alone.
///
/// It excludes, and is excluded by, the locks of those libraries with the same name on the same
/// server. One constructor per library sets that library's name of the key and its delay between
/// two tries:
///
/// | constructor | library | key | delay | lease by default |
/// |---|---|---|---|---|
/// | [`redis_py`](Self::redis_py) | redis-py `Lock` | the name | 100 ms | none: it never ends |
/// | [`redsync`](Self::redsync) | redsync `Mutex` | the name | 50 to 250 ms | 8 s |
/// | [`redislock`](Self::redislock) | bsm/redislock | the key | none; one try | given by the caller |
/// | [`node_redlock`](Self::node_redlock) | node-redlock | the resource | 200 ms ± 100 | given by the caller |
/// | [`rslock`](Self::rslock) | rslock | the resource | 0 to 200 ms | given by the caller |
///
/// The lease of this lock is that of the client, 30 s, and it is renewed; an acquisition can set
/// another one. [`redsync`](Self::redsync)'s lease is 8 s, and renewed as well.
///
/// # What the layout cannot promise
///
/// * **No token**: [`UnfencedGuard::token`] is `None`.
/// * **No protection from late copies** of the other library's requests. Late copies of this
///   client's own requests are refused.
/// * **No re-entry**: a second acquisition of one owner waits for the first.
/// * **No messages** from those libraries. A waiter asks again after the delay, or when the
///   holder's lease ends. Releases of this family notify the waiters of this family.
/// * **Any string is a lock.** A value of another type is `WrongKind`, and nothing is written.
/// * **A holder without a lease**, as redis-py creates by default, holds until it releases. If
///   such a holder dies, the name stays taken until you remove its key by hand.
///
/// The value of a hold is `<client>:<n>:<serial>`, which no other hold has. A second key, the hash
/// `<prefix>:setnx?{<name>}{}`, contains the last serial, the last release, and the attempts whose
/// copies are refused, for 30 s longer than the lease. If the hash is lost, the hold continues.
///
/// The handle is cheap to make and to clone and does no I/O.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
/// use redlatch::compat::SetNx;
///
/// let lock = SetNx::redis_py(&client, "report");
/// let guard = lock.lock().await?;
/// guard.run(async { /* no redis-py process is at work */ }).await?;
/// println!("{}", guard.release().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired until a method is awaited"]
pub struct SetNx {
    handle: Handle,
    retry: Duration,
    lease: Option<Duration>,
}

impl SetNx {
    /// Creates the lock under `key`, with a delay of 100 ms. Does no I/O.
    ///
    /// The first call that would send a request reports an invalid name as `InvalidName`: 1 to 512
    /// bytes of UTF-8 without braces, or with one hash tag, that look like no key of this client.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::SetNx;
    ///
    /// // A script takes this lock by `SET lock:report "$id" NX PX 30000`.
    /// let lock = SetNx::new(&client, "lock:report");
    /// let guard = lock.lock().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, key: impl AsRef<str>) -> Self {
        Self {
            handle: Handle::foreign(client, "set_nx", key.as_ref()),
            retry: Duration::from_millis(100),
            lease: None,
        }
    }

    /// Creates the lock of redis-py's `Lock(client, name)`, also of `aioredis`, django-redis and
    /// celery-redbeat, which use it.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::SetNx;
    ///
    /// // Excludes `redis.Redis().lock("report", timeout=30)`.
    /// let guard = SetNx::redis_py(&client, "report").lock().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn redis_py(client: &Client, name: impl AsRef<str>) -> Self {
        Self::new(client, name)
    }

    /// Creates the lock of redsync's `NewMutex(name)` on one pool. With several pools, make one per
    /// server, and a red-lock of them.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::compat::SetNx;
    ///
    /// // Excludes `redsync.New(pool).NewMutex("report")`.
    /// let guard = SetNx::redsync(&client, "report").lock().await?;
    /// assert!(guard.remaining() < Duration::from_secs(8));
    /// # Ok(())
    /// # }
    /// ```
    pub fn redsync(client: &Client, name: impl AsRef<str>) -> Self {
        let lock = Self::new(client, name).retry_delay(Duration::from_millis(150));
        Self {
            lease: Some(Duration::from_secs(8)),
            ..lock
        }
    }

    /// Creates the lock of bsm/redislock's `Obtain(ctx, key, …)`.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::SetNx;
    ///
    /// // Excludes `redislock.New(rdb).Obtain(ctx, "report", time.Minute, nil)`.
    /// let guard = SetNx::redislock(&client, "report").try_lock().await?;
    /// println!("{}", if guard.is_some() { "obtained" } else { "not obtained" });
    /// # Ok(())
    /// # }
    /// ```
    pub fn redislock(client: &Client, key: impl AsRef<str>) -> Self {
        Self::new(client, key)
    }

    /// Creates the lock of node-redlock's `acquire([resource], …)` on one server. A lock of several
    /// resources is one member per resource of a multi-lock; with several servers, make one per
    /// server, and a red-lock of them.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::SetNx;
    ///
    /// // Excludes `redlock.acquire(["stock:7", "stock:9"], 5000)`.
    /// let stock = ["stock:7", "stock:9"].map(|resource| SetNx::node_redlock(&client, resource));
    /// let guard = client.multi_lock(&[&stock[0], &stock[1]]).lock().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn node_redlock(client: &Client, resource: impl AsRef<str>) -> Self {
        Self::new(client, resource).retry_delay(Duration::from_millis(200))
    }

    /// Creates the lock of rslock's `lock(resource, …)` on one server. With several servers, make
    /// one per server, and a red-lock of them.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::SetNx;
    ///
    /// // Excludes `LockManager::new(urls).lock("report", ttl)` of the crate `rslock`.
    /// let guard = SetNx::rslock(&client, "report").lock().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rslock(client: &Client, resource: impl AsRef<str>) -> Self {
        Self::new(client, resource).retry_delay(Duration::from_millis(100))
    }

    /// Labels this handle's metrics and events with `class`.
    pub fn class(mut self, class: &str) -> Self {
        self.handle = self.handle.class(class);
        self
    }

    /// Sets the longest time between two requests of a waiter: each client that waits sends one
    /// request per `delay`. At least 1 ms.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::compat::SetNx;
    ///
    /// // The other side holds the lock for minutes, so ask every two seconds.
    /// let lock = SetNx::redis_py(&client, "report").retry_delay(Duration::from_secs(2));
    /// let guard = lock.lock().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry = delay.max(Duration::from_millis(1));
        self
    }

    /// Acquires the lock, and waits until the lock is free. Await the returned builder.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::compat::SetNx;
    ///
    /// let lock = SetNx::redis_py(&client, "report");
    /// let guard = lock.lock().lease(Duration::from_secs(60)).await?; // not renewed
    /// println!("{}", guard.release().await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when the lock is free. While the lock is held, one
    /// command per delay, however many tasks of this client wait.
    ///
    /// # Errors
    ///
    /// Those of [every acquisition](Error#errors-of-every-acquisition). A lock that another owner
    /// holds is not an error.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. A grant is released in the background, and late copies
    /// of its request acquire nothing.
    pub fn lock(&self) -> Acquire<UnfencedGuard> {
        let acquire = Acquire::new(self.client(), self.primitive());
        self.lease.into_iter().fold(acquire, Acquire::renewed_lease)
    }

    /// Acquires the lock if the lock is free now. Returns `None` if the name has another value.
    /// Costs one command. Errors and cancel safety as [`lock`](Self::lock).
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::SetNx;
    ///
    /// let Some(guard) = SetNx::redis_py(&client, "report").try_lock().await? else {
    ///     return Ok(()); // a redis-py process, or another process, is at work
    /// };
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> TryAcquire<UnfencedGuard> {
        let acquire = TryAcquire::new(self.client(), self.primitive());
        let lease = self.lease.into_iter();
        lease.fold(acquire, TryAcquire::renewed_lease)
    }

    /// Acquires the lock and waits up to `wait`. Returns `None` if the name had another value at
    /// each try. Otherwise as [`lock`](Self::lock).
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::compat::SetNx;
    ///
    /// // As `lock.acquire(blocking_timeout=5)` of redis-py.
    /// let guard = SetNx::redis_py(&client, "report").try_lock_for(Duration::from_secs(5)).await?;
    /// println!("{}", if guard.is_some() { "held" } else { "not within 5 s" });
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<UnfencedGuard> {
        let acquire = TryAcquireFor::new(self.client(), self.primitive(), wait);
        let lease = self.lease.into_iter();
        lease.fold(acquire, TryAcquireFor::renewed_lease)
    }

    /// Returns the value under the name and its remaining lease. Returns `None` if the name is
    /// free. Costs one command.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::SetNx;
    ///
    /// let lock = SetNx::redis_py(&client, "report");
    /// match lock.info().await?.map(|hold| hold.remaining) {
    ///     Some(Some(rest)) => println!("held for {rest:?}, unless extended"),
    ///     Some(None) => println!("held without an end"),
    ///     None => println!("free"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). `WrongKind` means a value of another
    /// type.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn info(&self) -> Result<Option<SetNxInfo>, Error> {
        let call = setnx::look(self.handle.key()?);
        self.handle.ask(call, setnx::looked).await
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.handle.name()
    }

    /// Returns the client that sends the requests.
    pub const fn client(&self) -> &Client {
        self.handle.client()
    }

    fn primitive(&self) -> Result<Arc<dyn Primitive>, Error> {
        let names = Names::of(&self.handle, "setnx")?;
        let retry = self.retry;
        Ok(Arc::new(SetNxName { names, retry }))
    }
}

impl Lockable for SetNx {
    fn member(&self) -> Result<Member, Error> {
        Ok(Member::new(self.client(), self.primitive()?))
    }
}

/// The value under the name of a [`SetNx`] lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetNxInfo {
    /// The value, as its holder wrote it. A client of this family writes `<client>:<n>:<serial>`.
    pub value: Vec<u8>,
    /// How long the value lasts if nothing extends it; `None` if it has no end.
    pub remaining: Option<Duration>,
}
