//! The handle of a plain lock.

use std::{fmt, sync::Arc, time::Duration};

use redlatch_core::{
    Acquire, Client, Error, ErrorKind, Key, Name, NameError, Owner, TryAcquire, TryAcquireFor,
    primitive::{AcquireRequest, Answer, Parted, Primitive, ReleaseRequest, RenewRequest, Renewed},
    script::ScriptCall,
    seam::Value,
};

use crate::{
    ForceRelease, Holder, LockGuard, LockInfo, inspect,
    scripts::{AcquireScript, ReleaseScript, RenewScript},
};

/// A reentrant lock under one name, shared by all processes that use the same server and prefix.
///
/// The handle is cheap to make and to clone and does no I/O. A name that is not allowed is told by the first call that talks to the server.
///
/// * **Exclusion** is by [`Owner`]: every acquisition has a fresh one and excludes every other, also inside one process and one task.
/// * **Re-entry**: pass the owner of the hold, or work inside its scope. All guards of a hold share one lease and one token; the name is free
///   when the last is gone. A guard gives its hold up a little before the server does; an owner that acquires again in between is given the same
///   hold and token with the new guard, and the old guard stays lost.
/// * **Order**: within a client first come, first served; between clients a newcomer may be faster than a waiter.
/// * **A holder that dies** holds until its lease ends, 30 s by default; the next holder can see that from
///   [`Held::is_after_abandonment`](redlatch_core::Held::is_after_abandonment).
/// * **Loss**: a guard knows its own deadline and tells of its end before the server can give the name away, also with the server gone.
/// * **Failover, restarts without persistence, clocks that are set** can make two holders; the later one has the greater token, unless
///   the server lost its data and has an earlier clock than before.
///
/// Unlike `tokio::sync::Mutex` it guards no data, holding it can end without your doing, and talking to the server can fail.
///
/// # Examples
///
/// `redlatch`'s `client.lock(name)` makes one; without that crate:
///
/// ```no_run
/// # async fn example() -> Result<(), redlatch_core::Error> {
/// use std::time::Duration;
/// use redlatch_core::Client;
/// use redlatch_reentrant::Lock;
///
/// let client = Client::connect("redis://localhost").await?;
/// let lock = Lock::new(&client, "orders:42").class("orders");
/// let guard = lock.lock().await?;
/// println!("held with token {}", guard.token());
/// assert!(lock.try_lock_for(Duration::from_millis(50)).await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lock {
    client: Client,
    class: Arc<str>,
    plain: Result<Arc<Plain>, NameError>,
}

/// What the engine knows of a plain lock.
#[derive(Debug)]
pub(crate) struct Plain {
    name: Name,
    key: Key,
    class: Arc<str>,
}

impl Lock {
    /// Makes a handle of the lock called `name`: 1 to 512 bytes of UTF-8.
    ///
    /// Does no I/O. A name that is not allowed is told by the first call that would talk to the server, as `InvalidName`.
    /// A well-formed `{tag}` in the name is kept, so that names with that tag share a hash slot.
    pub fn new(client: &Client, name: &str) -> Self {
        let class = Arc::<str>::from("");
        let plain =
            Name::parse(name).map(|name| Arc::new(Plain::new(client, name, Arc::clone(&class))));
        Self {
            client: client.clone(),
            class,
            plain,
        }
    }

    /// Labels this handle's metrics and events with `class`, for example what the lock is for. Names are never used as labels.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.class = class.into();
        self.plain = self.plain.map(|plain| {
            Arc::new(Plain::new(
                &self.client,
                plain.name.clone(),
                Arc::clone(&self.class),
            ))
        });
        self
    }

    /// Acquires the lock, waiting until it is free.
    ///
    /// Awaiting the returned builder does it: `lock.lock().await?`, `lock.lock().lease(d).await?`.
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when the lock is free; one more for each time it is not, and one every two seconds
    /// while waiting. Of the waiters of one client, only the first asks.
    ///
    /// # Errors
    ///
    /// Never for contention. At once: `InvalidName`, `InvalidLease`, `ForeignOwner`, `TooManyWaiters`, `WrongKind`, `ServerFull`, `Permission`,
    /// `Auth`, `Closed` (also when the client closes meanwhile), `Protocol`. After the client's patience without an answer: `Unavailable`,
    /// `NotEnoughReplicas`, or `OutcomeUnknown` when the server may have granted it; that grant is then given back in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any await, it leaves nothing: what was taken is given back in the background, and the local turn passes on. Its place
    /// among the waiters is lost.
    pub fn lock(&self) -> Acquire<LockGuard> {
        Acquire::new(&self.client, self.primitive())
    }

    /// Acquires the lock if it is free now; `None` if another owner has it.
    ///
    /// Gets one answer of the server, past the waiters of this process; an answer that gets lost is asked for again, for as long as the client is patient.
    /// Errors and cancel safety as [`lock`](Self::lock). One command, and one for the release.
    pub fn try_lock(&self) -> TryAcquire<LockGuard> {
        TryAcquire::new(&self.client, self.primitive())
    }

    /// Acquires the lock, waiting up to `wait`; `None` if another owner had it whenever this looked.
    ///
    /// Ends at its time, whatever happens; if the server did not answer then, it is an error and not `None`. A `wait` of zero is
    /// [`try_lock`](Self::try_lock): it takes the time that one answer needs. Otherwise as [`lock`](Self::lock).
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<LockGuard> {
        TryAcquireFor::new(&self.client, self.primitive(), wait)
    }

    /// Tells whether anybody holds the lock. Costs one command. Stale as soon as it is known.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.info().await?.is_some())
    }

    /// Tells whether `owner` holds the lock. Costs one command.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn is_held_by(&self, owner: &Owner) -> Result<bool, Error> {
        Ok(self.hold_count(owner).await? > 0)
    }

    /// Returns how many times `owner` holds the lock, zero if another or nobody does. Costs one command.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn hold_count(&self, owner: &Owner) -> Result<u32, Error> {
        let info = self.info().await?;
        Ok(info
            .filter(|info| info.owner == owner.to_string())
            .map_or(0, |info| info.count))
    }

    /// Returns how long the present hold lasts if it is not renewed; `None` if nobody holds the lock. Costs one command.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn remaining(&self) -> Result<Option<Duration>, Error> {
        Ok(self.info().await?.map(|info| info.remaining))
    }

    /// Returns who holds the lock, how often, with what token, since when and for how long; `None` if nobody does. Costs one command.
    ///
    /// # Errors
    ///
    /// `InvalidName`, `WrongKind` for a name of another kind, `Permission`, `Auth`, `Closed`; `Unavailable` or `OutcomeUnknown` when the
    /// server did not answer for as long as the client is patient.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn info(&self) -> Result<Option<LockInfo>, Error> {
        let plain = self.plain()?;
        inspect::info(&self.client, &plain.name, &plain.key).await
    }

    /// Returns the holders, at most one for a plain lock, with what their clients say about themselves. Costs two commands, one if nobody
    /// holds.
    ///
    /// # Errors
    ///
    /// As [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn holders(&self) -> Result<Vec<Holder>, Error> {
        match self.info().await? {
            Some(info) => {
                let metadata = self.client.metadata(&info.owner).await?;
                Ok(vec![Holder { info, metadata }])
            }
            None => Ok(Vec::new()),
        }
    }

    /// Ends the present hold, whoever has it. Awaiting the returned builder does it.
    ///
    /// **This breaks exclusion by definition**: the name is free at once, and the holder may still be at work. If it is a hold of this very
    /// client, its guards are told at once. Otherwise a renewed hold is told at its next renewal, and one with a fixed lease only at
    /// its deadline, or when it extends. The next holder has a greater token. Use
    /// [`after_lease`](ForceRelease::after_lease) to forbid renewal instead, which breaks nothing.
    pub fn force_release(&self) -> ForceRelease {
        ForceRelease::new(self)
    }

    /// Returns the name as it was given; `None` if it is not allowed.
    pub fn name(&self) -> Option<&str> {
        self.plain.as_ref().ok().map(|plain| plain.name.as_str())
    }

    fn primitive(&self) -> Result<Arc<dyn Primitive>, Error> {
        self.plain().map(|plain| Arc::clone(plain) as _)
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn plain(&self) -> Result<&Arc<Plain>, Error> {
        self.plain
            .as_ref()
            .map_err(|error| Error::new(ErrorKind::InvalidName, error.to_string()))
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Plain {
    fn new(client: &Client, name: Name, class: Arc<str>) -> Self {
        Self {
            key: client.key(&name),
            name,
            class,
        }
    }
}

impl Primitive for Plain {
    fn kind(&self) -> &'static str {
        "lock"
    }

    fn class(&self) -> Arc<str> {
        Arc::clone(&self.class)
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        AcquireScript {
            key: &self.key,
            request,
        }
        .call()
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        AcquireScript::decode(reply)
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        RenewScript {
            key: &self.key,
            request,
        }
        .call()
    }

    fn renewed(&self, reply: &Value) -> Result<Renewed, Error> {
        RenewScript::decode(reply)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        ReleaseScript {
            key: &self.key,
            request,
        }
        .call()
    }

    fn released(&self, reply: &Value) -> Result<Parted, Error> {
        ReleaseScript::decode(reply)
    }
}
