//! The handle of a lock in the layout of Redisson's `RLock`.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Acquire, Client, Error, Lockable, Member, Owner, TryAcquire, TryAcquireFor,
    family::{Handle, Internals, Primitive, Side},
};

use crate::{
    UnfencedGuard,
    scripts::{
        Names,
        redisson::{self, Looked, RedissonName},
    },
};

/// A lock in the layout of Redisson's `RLock`, that of `redisson.getLock(name)`: a hash under the
/// name itself, without the client's prefix, with the owner and its hold count.
///
/// The lock excludes the `RLock`s with the same name on the same server, and they exclude this
/// lock. A release of either side notifies the other side by a message, on Redisson's channel.
///
/// * **Owners** are `<uuid>:<number>`, as Redisson's `<uuid>:<thread>`: the UUID is the id of this
///   client, the number that of the [`Owner`].
/// * **Re-entry** is by [`Owner`], and Redisson shows the count. A re-entry never shortens the
///   lease; Redisson's own does.
/// * **The lease** is that of the client, 30 s, renewed every third of it. Redisson's is 30 s, too.
/// * **A forced release** of either side frees the name and wakes a waiter of the other. The guard
///   of the holder is lost at its next renewal.
///
/// # What the layout cannot promise
///
/// * **No token**: [`UnfencedGuard::token`] is `None`.
/// * **No protection from late copies** of Redisson's requests. Late copies of this client's own
///   requests are refused.
/// * **No order** of waiters.
/// * **`RLock` only**, not `RFairLock`, `RReadWriteLock`, `RFencedLock` or `RSpinLock`. A name that
///   has a read-write lock is `WrongKind`; a fair lock's hash looks the same, and its queue is not
///   respected.
/// * **In a cluster of Redis 7**, Redisson sends its messages by `SPUBLISH`, by default. This type
///   sends both kinds and hears `PUBLISH` only, so that it finds a release of Redisson there within
///   2.4 s, at its re-check.
///
/// A second key, the hash `<prefix>:redisson?{<name>}{}`, contains the attempts that hold, for 30 s
/// longer than the lease. If the hash is lost, the guard reports `Forgotten`, and the name stays
/// taken until the lease ends or its owner acquires again.
///
/// The handle is cheap to make and to clone and does no I/O.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
/// use redlatch::compat::Redisson;
///
/// // Excludes `redisson.getLock("report")`.
/// let lock = Redisson::new(&client, "report");
/// let guard = lock.lock().await?;
/// guard.run(async { /* no Java thread is at work */ }).await?;
/// println!("{}", guard.release().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Redisson(Handle);

impl Redisson {
    /// Creates the lock of `redisson.getLock(name)`. Does no I/O.
    ///
    /// The first call that would send a request reports an invalid name as `InvalidName`: 1 to 512
    /// bytes of UTF-8 without braces, or with one hash tag, that look like no key of this client.
    /// Redisson itself accepts other names and fails in a cluster.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::Redisson;
    ///
    /// let lock = Redisson::new(&client, "{order:42}:invoice"); // with a hash tag
    /// let guard = lock.lock().await?; // excludes `redisson.getLock("{order:42}:invoice")`
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self(Handle::foreign(client, "redisson", name.as_ref()))
    }

    /// Labels this handle's metrics and events with `class`.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self(self.0.class(class))
    }

    /// Acquires the lock, and waits until the lock is free. Await the returned builder.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::Redisson;
    ///
    /// let lock = Redisson::new(&client, "report");
    /// let outer = lock.lock().note("monthly report").await?;
    /// let inner = lock.lock().owner(outer.owner()).await?; // Redisson shows a count of 2
    /// # drop(inner);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release when the lock is free. One more for each message that
    /// the lock is free, and one every two seconds during the wait, however many tasks of this
    /// client wait.
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
        Acquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock if the lock is free now. Returns `None` if another owner holds the lock.
    /// Costs one command. Errors and cancel safety as [`lock`](Self::lock).
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::Redisson;
    ///
    /// let Some(guard) = Redisson::new(&client, "report").try_lock().await? else {
    ///     return Ok(()); // a Java thread, or another process, is at work
    /// };
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> TryAcquire<UnfencedGuard> {
        TryAcquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock and waits up to `wait`. Returns `None` if another owner held the lock at
    /// each try. Otherwise as [`lock`](Self::lock).
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    /// use redlatch::compat::Redisson;
    ///
    /// // As `getLock("report").tryLock(5, TimeUnit.SECONDS)`.
    /// let guard = Redisson::new(&client, "report").try_lock_for(Duration::from_secs(5)).await?;
    /// println!("{}", if guard.is_some() { "held" } else { "not within 5 s" });
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<UnfencedGuard> {
        TryAcquireFor::new(self.client(), self.primitive(), wait)
    }

    /// Returns the present hold. Returns `None` if no owner holds the name. Costs one command.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::Redisson;
    ///
    /// let lock = Redisson::new(&client, "report");
    /// let guard = lock.lock().await?;
    /// let hold = lock.info().await?.expect("held");
    /// assert_eq!(hold.owner, Redisson::owner_text(guard.owner()));
    /// assert_eq!(hold.count, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). `WrongKind` means a value that is not an
    /// `RLock`.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn info(&self) -> Result<Option<RedissonInfo>, Error> {
        Ok(self.look().await?.map(|(info, _)| info))
    }

    /// Ends the present hold of any owner, as `forceUnlock` does. Returns `false` if no owner holds
    /// the name. Costs two commands.
    ///
    /// **The call breaks exclusion by definition.** The name is free at once, while the holder may
    /// still be working. A guard of this client is lost at once. A hold of another client or of
    /// Redisson is lost at its next renewal. Works on a full server.
    ///
    /// The request takes effect once, however often it is sent, and at most 5 s after it was last
    /// sent. It ends a hold of the owner that was found. If a Java thread releases and acquires
    /// again in that time, its later hold is ended, since the layout does not tell them apart.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::Redisson;
    ///
    /// // The Java thread hangs, and its process renews the lock.
    /// let ended = Redisson::new(&client, "report").force_release().await?;
    /// println!("{}", if ended { "free" } else { "no owner holds the lock" });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The same as those of [`info`](Self::info).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the hold may or may not have been ended. A hold of another owner
    /// than the one found is never ended.
    pub async fn force_release(&self) -> Result<bool, Error> {
        let Some(hold) = self.look().await? else {
            return Ok(false);
        };
        let (client, object) = (self.0.client(), self.object()?);
        let operations = client.key_beside(object.key(), "redissonforce");
        let build = |op: &_| redisson::force(&object.0, &operations, op, &hold);
        let ended = self.0.change(build, redisson::forced).await?;
        if let Some(why) = &ended.refused {
            client.report_message_refused(&object, why);
        }
        let (_, serial) = hold;
        if let Some(serial) = serial.filter(|_| ended.freed) {
            client.revoked(object.key(), Side::Exclusive, serial);
        }
        Ok(ended.freed)
    }

    /// Returns `owner` as the server and Redisson show it.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::compat::Redisson;
    ///
    /// // To look for the owner in the output of `HGETALL report`.
    /// let guard = Redisson::new(&client, "report").lock().await?;
    /// println!("{}", Redisson::owner_text(guard.owner()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn owner_text(owner: &Owner) -> String {
        redisson::written(owner)
    }

    /// Returns the name as it was given; `None` if it is invalid.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Returns the client that sends the requests.
    pub const fn client(&self) -> &Client {
        self.0.client()
    }

    async fn look(&self) -> Result<Option<Looked>, Error> {
        let call = redisson::look(&self.object()?.0);
        self.0.ask(call, redisson::looked).await
    }

    fn object(&self) -> Result<RedissonName, Error> {
        let names = Names::of(&self.0, "redisson")?;
        let name = names.identity.key.name();
        let channel = if name.contains('{') {
            format!("{CHANNEL}:{name}")
        } else {
            format!("{CHANNEL}:{{{name}}}")
        };
        Ok(RedissonName(Names {
            channel: channel.into(),
            ..names
        }))
    }

    fn primitive(&self) -> Result<Arc<dyn Primitive>, Error> {
        Ok(Arc::new(self.object()?))
    }
}

/// The beginning of the channel on which Redisson waits.
const CHANNEL: &str = "redisson_lock__channel";

impl Lockable for Redisson {
    fn member(&self) -> Result<Member, Error> {
        Ok(Member::new(self.client(), self.primitive()?))
    }
}

/// The present hold of a [`Redisson`] lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedissonInfo {
    /// The owner, `<uuid>:<thread>`.
    pub owner: String,
    /// The hold count.
    pub count: u32,
    /// How long the hold lasts if nothing renews it; `None` if it has no end.
    pub remaining: Option<Duration>,
}
