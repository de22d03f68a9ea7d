//! The builders that set a count or wait. Await a builder to run it.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Error, WaitStrategy, awaited,
    family::{Handle, Internals, Lease, Wait as HowLong, WatchOptions, Watched, invalid},
};

use crate::{
    CountDownLatch,
    scripts::{self, Counted},
};

/// Sets the count of a latch. Await the builder. See
/// [`CountDownLatch::try_set_count`](CountDownLatch::try_set_count).
#[derive(Clone, Debug)]
#[must_use = "nothing is set until this is awaited"]
pub struct TrySetCount {
    pub(crate) latch: Handle,
    pub(crate) count: u32,
    pub(crate) ttl: Option<Duration>,
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
pub(crate) struct Request {
    pub(crate) latch: CountDownLatch,
    pub(crate) n: u32,
    pub(crate) wait: HowLong,
    pub(crate) strategy: Option<WaitStrategy>,
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
        Err(self.latch.latch()?.too_many_looks())
    }
}

macro_rules! strategies {
    ($($builder:ident),*) => {$(
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
        }
    )*};
}

/// A wait until the latch is open. Await the builder. See [`CountDownLatch::wait`].
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until this is awaited"]
pub struct Wait(pub(crate) Request);

/// A bounded wait until the latch is open. Await the builder. See [`CountDownLatch::wait_for`].
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until this is awaited"]
pub struct WaitFor(pub(crate) Request);

/// A count-down and the wait until the latch is open; await it. See
/// [`CountDownLatch::count_down_and_wait`].
#[derive(Clone, Debug)]
#[must_use = "nothing is counted until this is awaited"]
pub struct CountDownAndWait(pub(crate) Request);

strategies!(Wait, WaitFor, CountDownAndWait);

impl Wait {
    async fn run(self) -> Result<(), Error> {
        self.0.forever().await
    }
}

impl WaitFor {
    async fn run(self) -> Result<bool, Error> {
        self.0.run().await
    }
}

impl CountDownAndWait {
    async fn run(self) -> Result<(), Error> {
        self.0.forever().await
    }
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
