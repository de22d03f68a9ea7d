//! The handle of a latch, and the builders that set a count or wait. Await a builder to run it.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Client, Error, ErrorKind, Token, WaitStrategy, awaited,
    family::{
        Handle, Identity, Internals, Items, Lease, PhaseState, ScriptCall, Snapshot,
        Wait as HowLong, WatchOptions, Watched, invalid,
    },
};

use crate::scripts::{self, Counted, Looked};

/// A countdown latch under one name, shared by all processes that use the same server and prefix.
///
/// `Client::count_down_latch` creates a handle. You set the latch to a count, and parties count the
/// latch down. At zero the latch is open: all waiters continue, and later callers do not wait.
///
/// * **Once**: a count-down counts once, however often its request is sent, duplicated or delayed.
///   The request contains an id that the server remembers for longer than any copy may act.
/// * **Generations**: an open latch can be set again. A waiter waits for the generation that is
///   current at its call. The waiter continues when that generation has opened, even if the next
///   has begun. A count-down counts in the generation that is current on arrival.
/// * **Not set**: waiting, counting and inspecting fail with [`ErrorKind::NotSet`].
/// * **Deleted, expired, or lost by the server**: waiters get [`ErrorKind::Deleted`].
/// * **No holds**: a party that dies before its count-down keeps the latch closed. Bound the wait
///   of the others with [`wait_for`](Self::wait_for) or a [TTL](TrySetCount::ttl). A waiter that
///   dies leaves no trace.
/// * **Life**: the latch stays until it is deleted, open or not, unless you set a TTL.
/// * **Failover**: a failover or a restart without persistence can lose counts, which keeps the
///   latch closed. If the latch itself is lost, waiters get `Deleted`. A later caller sees the
///   state that the server remembers, possibly an earlier, open generation.
///
/// # Examples
///
/// A gate for the start: no party begins before all four are ready.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let ready = client.count_down_latch("import:ready");
/// let party = async || {
///     // The first party sets the count. For the others the count is already set.
///     ready.try_set_count(4).await?;
///     ready.count_down_and_wait(1).await
/// };
/// tokio::try_join!(party(), party(), party(), party())?;
/// assert_eq!(ready.count().await?, 0);
/// # Ok(())
/// # }
/// ```
#[doc(alias("RCountDownLatch", "getCountDownLatch", "barrier"))]
#[derive(Clone, Debug)]
pub struct CountDownLatch(Handle);

/// The latch's implementation of the core's `Watched`.
#[derive(Debug)]
struct Latch(Identity);

impl CountDownLatch {
    /// Creates a handle of the latch called `name`, as `Client::count_down_latch` does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self(Handle::new(client, "latch", name.as_ref()))
    }

    /// Labels the metrics and events of this handle with `class`, for example with the purpose of
    /// the latch. Names are never used as labels.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self(self.0.class(class))
    }

    /// Sets the count. Returns `false`, and changes nothing, if the latch is already set and not
    /// open.
    ///
    /// Await the returned builder. The option [`ttl`](TrySetCount::ttl) lets the latch expire. The
    /// setting begins a new generation. The count is 0 to `u32::MAX`. With 0 the latch is open at
    /// once, so a computed number of parties needs no special case. Of several parties that set the
    /// count at the same time, one gets `true`. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let shards = client.count_down_latch("reindex:shards");
    /// assert!(shards.try_set_count(12).ttl(Duration::from_secs(3600)).await?);
    /// assert!(!shards.try_set_count(12).await?, "set by another party");
    /// shards.count_down(12).await?;
    /// assert!(shards.try_set_count(12).await?, "open, so the next run may begin");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` for a TTL that is out of bounds. Otherwise those of [every
    /// call](Error#errors-of-every-call). After `OutcomeUnknown`, the count may be set.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the count may be set or not. An unsent request is not sent. A sent request
    /// acts within 5 s or never.
    #[doc(alias = "trySetCount")]
    pub fn try_set_count(&self, count: u32) -> TrySetCount {
        TrySetCount {
            latch: self.0.clone(),
            count,
            ttl: None,
        }
    }

    /// Counts `n` down, once, and returns the remaining count. Zero means that the latch is open.
    ///
    /// A count-down beyond zero, or of an open latch, stops at zero and is not an error. So parties
    /// need not agree on the last count-down. With `n` of 0 the call only reads the count. Costs
    /// one command. Works on a full server.
    ///
    /// If the answer is lost, the request is repeated. The result is then the count at that time.
    /// The result is also zero if the latch was deleted in the meantime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let shards = client.count_down_latch("reindex:shards");
    /// shards.try_set_count(3).await?;
    /// assert_eq!(shards.count_down(1).await?, 2);
    /// if shards.count_down(2).await? == 0 {
    ///     println!("the last shard is done: switch to the new index");
    /// }
    /// # assert_eq!(shards.count().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if no party has set the latch. Otherwise those of [every
    /// call](Error#errors-of-every-call). After `OutcomeUnknown`, a second call may count twice.
    /// Compare [`count`](Self::count) first.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the call counts once or not at all. An unsent request is not sent. A sent
    /// request acts within 5 s or never.
    #[doc(alias = "countDown")]
    pub async fn count_down(&self, n: u32) -> Result<u32, Error> {
        if n == 0 {
            return self.count().await;
        }
        match self.counted(n).await? {
            Counted::Left { left, .. } => Ok(left),
            Counted::Deleted => Ok(0),
            Counted::Unset => Err(self.latch()?.absent()),
        }
    }

    /// Counts `n` down, once, and waits until the latch is open. Await the returned builder.
    ///
    /// Waits for the generation of its own count-down, even if the answer to the count-down was
    /// lost. Costs one command if the call itself opens the latch. Otherwise two and a
    /// subscription, one check every two seconds per client, and one for each message.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let phase = client.count_down_latch("migration:phase-1");
    /// phase.try_set_count(2).await?;
    /// let (one, two) = tokio::join!(phase.count_down_and_wait(1), phase.count_down_and_wait(1));
    /// assert!(one.is_ok() && two.is_ok()); // both begin phase 2
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down) and [`wait`](Self::wait). [`Error::is_not_executed`]
    /// does not cover the count-down.
    ///
    /// # Cancel safety
    ///
    /// As [`count_down`](Self::count_down). The wait leaves no trace.
    pub fn count_down_and_wait(&self, n: u32) -> CountDownAndWait {
        CountDownAndWait(self.request(n, HowLong::Forever))
    }

    /// Waits until the latch is open. Returns at once if the latch is open. Await the returned
    /// builder.
    ///
    /// The call waits for the generation that is current at the call. If that generation opens and
    /// the latch is set again, the call returns as well.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let schema = client.count_down_latch("schema:v42");
    /// schema.try_set_count(1).await?;
    /// let server = tokio::spawn(schema.wait().into_future()); // serves after the migration
    /// schema.count_down(1).await?; // the migration is done
    /// server.await.expect("no panic")?;
    /// schema.wait().await?; // a later start does not wait
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// One command if the latch is open. Otherwise a second command and a subscription, shared with
    /// all waiters of this latch in this client, and one check every two seconds for all of them.
    /// When the latch opens, one message reaches the client, which then checks once for all of
    /// them.
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if no party has set the latch. [`Deleted`](ErrorKind::Deleted)
    /// if the latch is deleted during the wait, expires, or is lost by the server.
    /// `TooManyAttempts` if the [strategy](Wait::strategy) allows no further look.
    /// `TooManyWaiters`. Otherwise those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. A wait registers nothing on the server. The
    /// subscription ends with the last waiter.
    #[doc(alias = "await")]
    pub fn wait(&self) -> Wait {
        Wait(self.request(0, HowLong::Forever))
    }

    /// Waits until the latch is open, at most for `wait`. Returns `false` if the latch was closed
    /// at each check.
    ///
    /// Ends after `wait` in any case. Without an answer of the server by then, the result is an
    /// error and not `false`. A `wait` of zero is one request, and takes until its answer. A
    /// [strategy](WaitFor::strategy) that allows no further look ends the wait early, with `false`.
    /// Otherwise as [`wait`](Self::wait).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let votes = client.count_down_latch("votes");
    /// votes.try_set_count(3).await?;
    /// votes.count_down(2).await?;
    /// if !votes.wait_for(Duration::from_secs(60)).await? {
    ///     println!("{} votes are missing after a minute", votes.count().await?);
    /// }
    /// # assert_eq!(votes.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for(&self, wait: Duration) -> WaitFor {
        WaitFor(self.request(0, HowLong::For(wait)))
    }

    /// Returns the remaining count. Returns zero if the latch is open. Costs one command. The
    /// result may be outdated on arrival.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::ErrorKind;
    ///
    /// let shards = client.count_down_latch("reindex:shards");
    /// assert_eq!(shards.count().await.unwrap_err().kind(), ErrorKind::NotSet);
    /// shards.try_set_count(12).await?;
    /// shards.count_down(5).await?;
    /// assert_eq!(shards.count().await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotSet`](ErrorKind::NotSet) if no party has set the latch. Otherwise those of [every
    /// call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    #[doc(alias = "getCount")]
    pub async fn count(&self) -> Result<u32, Error> {
        match self.info().await? {
            Some(info) => Ok(info.count),
            None => Err(self.latch()?.absent()),
        }
    }

    /// Returns the remaining count, the count at the setting, the time since then and the TTL.
    /// Returns `None` if no party has set the latch. Costs one command.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let ready = client.count_down_latch("import:ready");
    /// assert!(ready.info().await?.is_none());
    /// ready.try_set_count(4).await?;
    /// ready.count_down(1).await?;
    /// let info = ready.info().await?.expect("the latch is set");
    /// assert_eq!((info.count, info.initial, info.is_open()), (3, 4, false));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn info(&self) -> Result<Option<LatchInfo>, Error> {
        let key = self.0.key()?;
        let read = |items: &Items<'_>| scripts::looked(key.name(), items, &[]);
        let looked = self.0.ask(scripts::look(key, &[]), read).await?;
        Ok(looked.present)
    }

    /// Removes the latch, open or not. Returns `false` if the latch does not exist. All waiters get
    /// [`Deleted`](ErrorKind::Deleted) at once.
    ///
    /// Costs one command. Works on a full server. The server remembers the removed latch for the
    /// client's token retention, so no waiter mistakes the next latch for the removed one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::ErrorKind;
    ///
    /// let ready = client.count_down_latch("import:ready");
    /// ready.try_set_count(4).await?;
    /// let waiter = tokio::spawn(ready.wait().into_future());
    /// # tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    /// assert!(ready.delete().await?); // the import is cancelled
    /// let error = waiter.await.expect("no panic").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Deleted);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). After `OutcomeUnknown`, the latch may be
    /// deleted.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the latch may be deleted or not. An unsent request is not sent. A sent request
    /// acts within 5 s or never.
    pub async fn delete(&self) -> Result<bool, Error> {
        let (key, trace) = (self.0.key()?, self.0.client().retention());
        let call = |op: &_| scripts::delete(key, op, trace);
        self.0.change(call, scripts::deleted).await
    }

    /// Returns the name as it was given. Returns `None` if the name is invalid.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    const fn client(&self) -> &Client {
        self.0.client()
    }

    fn latch(&self) -> Result<Latch, Error> {
        self.0.identity().map(Latch)
    }

    fn request(&self, n: u32, wait: HowLong) -> Request {
        Request {
            latch: self.clone(),
            n,
            wait,
            strategy: None,
        }
    }

    async fn counted(&self, n: u32) -> Result<Counted, Error> {
        let key = self.0.key()?;
        let call = |op: &_| scripts::count_down(key, op, n);
        self.0.change(call, scripts::counted).await
    }
}

/// A latch as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatchInfo {
    /// The name.
    pub name: String,
    /// The remaining count; zero if the latch is open.
    pub count: u32,
    /// The count at the setting.
    pub initial: u32,
    /// The number of this generation. Each setting has a greater one, as a rule the server's time
    /// in µs.
    pub generation: Token,
    /// The time since it was set, by the server's clock. It is derived from the generation, and too
    /// short after the server's clock was set back.
    pub age: Duration,
    /// The remaining TTL; `None` if it was set without one.
    pub remaining: Option<Duration>,
}

impl LatchInfo {
    /// Returns true if the latch is open.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let schema = client.count_down_latch("schema:v42");
    /// schema.try_set_count(1).await?;
    /// schema.count_down(1).await?;
    /// let info = schema.info().await?.expect("the latch is set");
    /// assert!(info.is_open());
    /// # Ok(())
    /// # }
    /// ```
    pub const fn is_open(&self) -> bool {
        self.count == 0
    }
}

impl Watched for Latch {
    fn kind(&self) -> &'static str {
        "latch"
    }

    fn identity(&self) -> &Identity {
        &self.0
    }

    fn look(&self, phases: &[u64]) -> ScriptCall {
        scripts::look(self.key(), phases)
    }

    fn looked(&self, phases: &[u64], items: &Items<'_>) -> Result<Snapshot, Error> {
        let Looked { states, present } = scripts::looked(self.name(), items, phases)?;
        let present = present.as_ref();
        let state = |left| match left {
            0 => PhaseState::Over,
            _ => PhaseState::UnderWay,
        };
        Ok(Snapshot {
            states,
            present: present.map(|latch| (latch.generation.as_u64(), state(latch.count))),
            remaining: present
                .and_then(|latch| latch.remaining)
                .unwrap_or(Duration::MAX),
        })
    }

    fn absent(&self) -> Error {
        let message = "nobody has set it; one participant calls try_set_count first";
        Error::new(ErrorKind::NotSet, message).about(self.kind(), self.name())
    }

    fn gone(&self) -> Error {
        let message = "it is gone: deleted, expired by its ttl, or lost by the server";
        Error::new(ErrorKind::Deleted, message).about(self.kind(), self.name())
    }
}

/// Sets the count of a latch. Await the builder. See
/// [`CountDownLatch::try_set_count`](CountDownLatch::try_set_count).
#[derive(Clone, Debug)]
#[must_use = "nothing is set until this is awaited"]
pub struct TrySetCount {
    latch: Handle,
    count: u32,
    ttl: Option<Duration>,
}

impl TrySetCount {
    /// Lets the latch expire after `ttl`, open or not: 1 s to 365 days, else `InvalidOption`.
    /// Default: the latch stays until it is deleted.
    ///
    /// The time counts from the setting. A count-down does not change the end of the latch. A new
    /// setting replaces the TTL. Waiters get `Deleted` when the latch expires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let imported = client.count_down_latch("import:2026-11-28");
    /// imported.try_set_count(3).ttl(Duration::from_secs(24 * 3600)).await?;
    /// tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
    /// assert!(imported.info().await?.is_none(), "you need not delete the latch");
    /// # Ok(())
    /// # }
    /// ```
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    async fn run(self) -> Result<bool, Error> {
        if let Some(ttl) = self.ttl
            && (ttl < MIN_TTL || ttl > Lease::MAX)
        {
            let message = "the ttl of a latch is out of bounds; it is 1 s to 365 days";
            return Err(invalid(message));
        }
        let key = self.latch.key()?;
        let call = |op: &_| scripts::set(key, op, self.count, self.ttl);
        self.latch.change(call, scripts::was_set).await
    }
}

/// What the builders of a wait do: a count-down, unless `n` is 0, and the wait.
#[derive(Clone, Debug)]
struct Request {
    latch: CountDownLatch,
    n: u32,
    wait: HowLong,
    strategy: Option<WaitStrategy>,
}

impl Request {
    /// Returns true if the latch is open.
    async fn run(&self) -> Result<bool, Error> {
        let mut generation = None;
        if self.n > 0 {
            generation = match self.latch.counted(self.n).await? {
                Counted::Left { left: 0, .. } => return Ok(true),
                Counted::Left { generation, .. } => generation,
                Counted::Deleted => return Err(self.latch.latch()?.gone()),
                Counted::Unset => return Err(self.latch.latch()?.absent()),
            };
        }
        let latch: Arc<dyn Watched> = Arc::new(self.latch.latch()?);
        let options = WatchOptions {
            phase: generation,
            wait: self.wait,
            strategy: self.strategy,
        };
        self.latch.client().watch(&latch, &options).await
    }

    async fn forever(&self) -> Result<(), Error> {
        if self.run().await? {
            return Ok(());
        }
        let message =
            "it was closed at each look that the wait strategy allows; allow more, or use wait_for";
        let error = Error::new(ErrorKind::TooManyAttempts, message);
        self.latch.0.about(Err(error))
    }
}

macro_rules! waits {
    ($($builder:ident => $output:ty, $run:path;)*) => {$(
        impl $builder {
            /// Sets how to wait. Default: the client's,
            /// [`ClientBuilder::wait_strategy`](redlatch_core::ClientBuilder::wait_strategy).
            ///
            /// ```
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), redlatch::Error> {
            /// # tokio::time::pause();
            /// # let client = redlatch::Client::embedded().await?;
            /// use std::time::Duration;
            /// use redlatch::{Backoff, WaitStrategy};
            ///
            /// let schema = client.count_down_latch("schema:v42");
            /// # schema.try_set_count(0).await?;
            /// // Ask every second, without a subscription.
            /// let poll = WaitStrategy::Poll(Backoff::constant(Duration::from_secs(1)));
            /// let open = schema.wait_for(Duration::from_secs(60)).strategy(poll).await?;
            /// assert!(open);
            /// # Ok(())
            /// # }
            /// ```
            pub const fn strategy(mut self, strategy: WaitStrategy) -> Self {
                self.0.strategy = Some(strategy);
                self
            }

            async fn run(self) -> Result<$output, Error> {
                $run(&self.0).await
            }
        }
    )*};
}

/// A wait until the latch is open. Await the builder. See [`CountDownLatch::wait`].
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until this is awaited"]
pub struct Wait(Request);

/// A bounded wait until the latch is open. Await the builder. See [`CountDownLatch::wait_for`].
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until this is awaited"]
pub struct WaitFor(Request);

/// A count-down and the wait until the latch is open; await it. See
/// [`CountDownLatch::count_down_and_wait`].
#[derive(Clone, Debug)]
#[must_use = "nothing is counted until this is awaited"]
pub struct CountDownAndWait(Request);

waits! {
    Wait => (), Request::forever;
    WaitFor => bool, Request::run;
    CountDownAndWait => (), Request::forever;
}

awaited! {
    /// True if this call set the count.
    TrySetCount => bool;
    Wait => ();
    /// True if the latch is open.
    WaitFor => bool;
    CountDownAndWait => ();
}

/// Shortest TTL of a latch.
const MIN_TTL: Duration = Duration::from_secs(1);
