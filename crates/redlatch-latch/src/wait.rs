//! The builders of a wait. Await a builder to run it.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Error, ErrorKind, WaitStrategy, awaited,
    family::{Internals, Wait as HowLong, WatchOptions, Watched},
};

use crate::{CountDownLatch, scripts::Counted};

/// The options that the builders share.
#[derive(Clone, Debug)]
struct Request {
    latch: CountDownLatch,
    strategy: Option<WaitStrategy>,
}

impl Request {
    fn new(latch: &CountDownLatch) -> Self {
        Self {
            latch: latch.clone(),
            strategy: None,
        }
    }

    async fn run(&self, generation: Option<u64>, wait: HowLong) -> Result<bool, Error> {
        let latch: Arc<dyn Watched> = Arc::new(self.latch.latch()?);
        let options = WatchOptions {
            phase: generation,
            wait,
            strategy: self.strategy,
        };
        self.latch.client().watch(&latch, &options).await
    }

    async fn forever(&self, generation: Option<u64>) -> Result<(), Error> {
        if self.run(generation, HowLong::Forever).await? {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Protocol,
            "a wait without a deadline ended before the latch opened",
        ))
    }
}

macro_rules! strategy {
    ($builder:ident) => {
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
                self.request.strategy = Some(strategy);
                self
            }
        }
    };
}

/// A wait until the latch is open. Await the builder. See [`CountDownLatch::wait`].
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until this is awaited"]
pub struct Wait {
    request: Request,
}

/// A bounded wait until the latch is open. Await the builder. See [`CountDownLatch::wait_for`].
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until this is awaited"]
pub struct WaitFor {
    request: Request,
    wait: Duration,
}

/// A count-down and the wait until the latch is open; await it. See
/// [`CountDownLatch::count_down_and_wait`].
#[derive(Clone, Debug)]
#[must_use = "nothing is counted until this is awaited"]
pub struct CountDownAndWait {
    request: Request,
    n: u32,
}

strategy!(Wait);
strategy!(WaitFor);
strategy!(CountDownAndWait);

impl Wait {
    pub(crate) fn new(latch: &CountDownLatch) -> Self {
        Self {
            request: Request::new(latch),
        }
    }

    async fn run(self) -> Result<(), Error> {
        self.request.forever(None).await
    }
}

impl WaitFor {
    pub(crate) fn new(latch: &CountDownLatch, wait: Duration) -> Self {
        Self {
            request: Request::new(latch),
            wait,
        }
    }

    async fn run(self) -> Result<bool, Error> {
        self.request.run(None, HowLong::For(self.wait)).await
    }
}

impl CountDownAndWait {
    pub(crate) fn new(latch: &CountDownLatch, n: u32) -> Self {
        Self {
            request: Request::new(latch),
            n,
        }
    }

    async fn run(self) -> Result<(), Error> {
        if self.n == 0 {
            return self.request.forever(None).await;
        }
        match self.request.latch.counted(self.n).await? {
            Counted::Left { left: 0, .. } => Ok(()),
            Counted::Left { generation, .. } => self.request.forever(generation).await,
            Counted::Deleted => Err(self.request.latch.latch()?.gone()),
            Counted::Unset => Err(self.request.latch.latch()?.absent()),
        }
    }
}

awaited! {
    Wait => ();
    /// True if the latch is open.
    WaitFor => bool;
    CountDownAndWait => ();
}
