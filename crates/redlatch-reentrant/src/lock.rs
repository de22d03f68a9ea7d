//! The handle of a plain lock.

use std::{ops::Deref, time::Duration};

use redlatch_core::{
    Acquire, Client, Error, Lockable, Member, TryAcquire, TryAcquireFor,
    exclusive::{Exclusive, Locks},
    family::{Discipline, Kind},
};
use redlatch_lua::REENTRANT;

/// One waiter of each client asks for all of them, and a new caller may be faster.
pub(crate) static LOCK: Kind = Kind {
    label: "lock",
    stored: "lock:1",
    discipline: Discipline::Barging,
    parts: &["q"],
    scripts: &REENTRANT,
};

/// A reentrant lock under one name, shared by all processes that use the same server and prefix.
///
/// `Client::lock` creates a handle. The handle is cheap to clone. Unlike `tokio::sync::Mutex`, the
/// lock contains no data, a hold can be lost, and each request can fail.
///
/// * **Exclusion**: one [`Owner`](redlatch_core::Owner) holds the name at a time. Every acquisition
///   has a fresh owner. So two acquisitions exclude each other, even within one task.
/// * **Re-entry**: pass the owner of the hold to the acquisition, or work inside the owner's
///   [scope](redlatch_core::Owner::scope). All guards of a hold share one lease and one token. The
///   name is free when the last guard has been dropped. A guard gives its hold up a little before
///   the server does. An owner that acquires in between gets the same hold and token with a new
///   guard, and the old guard stays lost.
/// * **Order**: first come, first served within a client. Between clients, a new caller can be
///   faster than a waiter. A fair lock serves the waiters of all clients in order.
/// * **A holder that dies** keeps the name until its lease ends, 30 s by default. The next guard
///   returns true from [`Held::is_after_abandonment`](redlatch_core::Held::is_after_abandonment).
/// * **Loss**: a guard computes its own deadline. The guard reports a loss before the server can
///   give the name to another owner, even if the server is unreachable.
/// * **Failover**: a failover, a restart without persistence, or a server clock that is set can
///   lead to two holders. The later holder has the greater token, unless the server lost its data
///   and its clock was set back.
///
/// The lock derefs to [`Exclusive`], which inspects the lock and forces a release.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// use redlatch::Client;
///
/// let client = Client::embedded().await?; // or Client::connect("redis://localhost")
/// let lock = client.lock("orders:42");
/// let guard = lock.lock().await?;
/// assert!(lock.try_lock().await?.is_none(), "one owner at a time");
///
/// guard.release().await?;
/// assert!(lock.try_lock().await?.is_some());
/// # Ok(())
/// # }
/// ```
///
/// An owner acquires its lock again:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let account = client.lock("account:7");
/// let outer = account.lock().await?;
/// let inner = account.lock().owner(outer.owner()).await?; // does not wait
/// assert_eq!(inner.token(), outer.token());
///
/// drop(outer);
/// assert!(account.is_locked().await?, "until the last guard is dropped");
/// # drop(inner);
/// # Ok(())
/// # }
/// ```
#[doc(alias("mutex", "RLock", "getLock", "redlock"))]
#[derive(Clone, Debug)]
pub struct Lock(Exclusive);

impl Lock {
    /// Creates a handle of the lock called `name`, as `Client::lock` does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self(Exclusive::new(client, &LOCK, name.as_ref()))
    }

    /// Labels the metrics and events of this handle with `class`, for example with the purpose of
    /// the lock. Names are never used as labels.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self(self.0.class(class))
    }

    /// Acquires the lock, and waits until the lock is free.
    ///
    /// Await the returned builder. The builder has options, such as [`lease`](Acquire::lease),
    /// [`note`](Acquire::note) and [`owner`](Acquire::owner).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let lock = client.lock("report");
    /// use std::time::Duration;
    ///
    /// let guard = lock.lock().await?;
    /// println!("token {}, renewed until the drop", guard.token());
    /// drop(guard);
    ///
    /// let guard = lock.lock().lease(Duration::from_secs(60)).note("monthly report").await?;
    /// assert!(guard.remaining() > Duration::from_secs(50)); // not renewed
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A guard that is forgotten frees its name:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let lock = client.lock("report");
    /// use std::time::Duration;
    ///
    /// let lease = Duration::from_secs(6); // renewed every 2 s, for a minute at most
    /// let guard = lock.lock().renewed_lease(lease).max_hold(Duration::from_secs(60)).await?;
    /// tokio::time::sleep(Duration::from_secs(50)).await;
    /// assert!(guard.check().is_ok());
    /// tokio::time::sleep(Duration::from_secs(20)).await;
    /// assert!(guard.check().is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when the lock is free. Each try that finds the lock
    /// held costs one more. While a client waits, its first waiter sends one command every two
    /// seconds for all waiters of the client.
    ///
    /// # Errors
    ///
    /// Those of [every acquisition](Error#errors-of-every-acquisition). A lock that another owner
    /// holds is not an error.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. A grant is released in the background, the next waiter
    /// of this client takes over, and the place among the waiters is lost.
    #[doc(alias = "acquire")]
    pub fn lock(&self) -> Acquire<LockGuard> {
        Acquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock if the lock is free now. Returns `None` if another owner holds the lock.
    ///
    /// Sends one request, ahead of the waiters of this process. If the answer is lost, the request
    /// is repeated within the client's `patience`. Errors and cancel safety as
    /// [`lock`](Self::lock). Costs one command, and one for the release.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let sync = client.lock("sync:customers");
    /// let Some(guard) = sync.try_lock().await? else {
    ///     return Ok(()); // another process synchronises
    /// };
    /// assert!(sync.try_lock().await?.is_none());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "tryLock")]
    pub fn try_lock(&self) -> TryAcquire<LockGuard> {
        TryAcquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock and waits up to `wait`. Returns `None` if another owner held the lock at
    /// each try.
    ///
    /// Ends after `wait` in any case. Without an answer of the server by then, the result is an
    /// error and not `None`. A `wait` of zero is [`try_lock`](Self::try_lock), which takes until
    /// the answer to one request. Otherwise as [`lock`](Self::lock).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let lock = client.lock("deploy");
    /// let guard = lock.lock().await?;
    /// match lock.try_lock_for(Duration::from_millis(50)).await? {
    ///     Some(_guard) => println!("deploying"),
    ///     None => println!("another deployment runs: {:?}", lock.holders().await?),
    /// }
    /// # assert!(lock.is_held_by(guard.owner()).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<LockGuard> {
        TryAcquireFor::new(self.client(), self.primitive(), wait)
    }
}

impl Deref for Lock {
    type Target = Exclusive;

    fn deref(&self) -> &Exclusive {
        &self.0
    }
}

impl Lockable for Lock {
    fn member(&self) -> Result<Member, Error> {
        self.0.member()
    }
}

/// Finds held plain locks whose name matches `pattern`; see [`Locks`].
pub fn locks(client: &Client, pattern: &str) -> Locks {
    Locks::new(client, &LOCK, pattern)
}

redlatch_core::guards! {
    /// A hold of a [`Lock`](crate::Lock). Dropping the guard releases in the background.
    /// [`release`](Self::release) also returns the outcome.
    ///
    /// The guard is `'static` and `Send`. You may drop the guard anywhere, even during a panic or
    /// outside of a runtime. A drop only queues the release. If the process exits right afterwards,
    /// the release may never be sent, and the name stays held until the lease ends. Where that
    /// matters, await [`release`](Self::release), or end the program with
    /// [`Client::close`](redlatch_core::Client::close).
    ///
    /// The guard derefs to [`Held`]. Only [`extend`](Held::extend) and [`release`](Self::release)
    /// send requests.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # async fn load() -> u32 { 41 }
    /// let guard = client.lock("counter").lock().await?;
    /// // `run` drops the future at its next await if the lock is lost.
    /// let value = guard.run(load()).await?;
    /// // Check before a step that must not happen without the lock.
    /// guard.check()?;
    /// println!("SET value = {value}, token = {0} WHERE token <= {0}", guard.token());
    /// assert!(guard.release().await?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A guard that is lost resolves [`lost`](Held::lost), and `run` drops its work:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let server = redlatch::embedded::Server::start();
    /// use redlatch::LossCause;
    ///
    /// # let client = server.client().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// server.lose("orders:42"); // as a restart without persistence does
    /// let lost = guard.run(std::future::pending::<()>()).await.unwrap_err();
    /// assert_eq!(lost.loss(), Some(LossCause::Forgotten));
    /// assert_eq!(guard.lost().await, LossCause::Forgotten);
    /// assert!(guard.check().is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A lease of fixed length ends unless you extend the lease:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let guard = client.lock("upload").lock().lease(Duration::from_secs(10)).await?;
    /// guard.ending(Duration::from_secs(3)).await; // resolves 3 s before the deadline
    /// guard.extend(Duration::from_secs(60)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "mutexguard")]
    LockGuard;
}
