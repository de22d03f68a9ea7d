//! The waiters of a fair lock.

use std::{collections::VecDeque, time::Duration};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use redlatch_core::{
    Error, Metadata,
    family::{Handle, Records},
    streams,
};

use crate::scripts;

/// A waiter of a fair lock, as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The owner, `<client>:<n>`.
    pub owner: String,
    /// The number of waiters before it at the time of the request. Dead waiters are counted until a
    /// script removes them.
    pub position: u64,
    /// For how long it has waited, by the server's clock.
    pub waiting: Duration,
    /// For how long it counts as alive if its client sends nothing more. Zero for a dead waiter,
    /// which will be skipped.
    pub alive_for: Duration,
    /// Host, process and application. `None` if the client's record is gone.
    pub metadata: Option<Metadata>,
}

/// The waiters of a fair lock in order, as a stream; see
/// [`FairLock::waiters`](crate::FairLock::waiters).
#[must_use = "a stream does nothing unless it is polled"]
pub struct Waiters(BoxStream<'static, Result<Waiter, Error>>);

streams! {
    Waiters => Waiter;
}

impl Waiters {
    pub(crate) fn new(handle: &Handle) -> Self {
        let walk = Walk {
            lock: handle.clone(),
            after: None,
            found: VecDeque::new(),
            position: 0,
            records: Records::new(handle.client()),
            ended: false,
        };
        let step = async |mut walk: Walk| Ok(walk.next().await?.map(|waiter| (waiter, walk)));
        Self(Box::pin(stream::try_unfold(walk, step)))
    }

    /// Returns the next waiter. Returns `None` at the end and after an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let printer = client.fair_lock("printer");
    /// # let guard = printer.lock().await?;
    /// # let _next = tokio::spawn(printer.lock().into_future());
    /// # tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    /// let mut waiters = printer.waiters();
    /// if let Some(first) = waiters.next().await {
    ///     println!("next: {}", first?.owner);
    /// }
    /// assert!(waiters.next().await.is_none(), "one caller waits");
    /// # drop(guard);
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
    /// The method only reads. After a drop, the next call returns the item that was under way.
    pub async fn next(&mut self) -> Option<Result<Waiter, Error>> {
        self.0.next().await
    }
}

struct Walk {
    lock: Handle,
    /// Ticket of the last waiter found.
    after: Option<u64>,
    found: VecDeque<(u64, Waiter)>,
    position: u64,
    records: Records,
    ended: bool,
}

impl Walk {
    async fn next(&mut self) -> Result<Option<Waiter>, Error> {
        if self.found.is_empty() && !self.ended {
            let call = scripts::waiters(self.lock.key()?, self.after, STEP);
            self.found = self.lock.ask(call, scripts::listed).await?.into();
            self.ended = self.found.len() < STEP;
        }
        let Some((ticket, mut waiter)) = self.found.pop_front() else {
            return Ok(None);
        };
        self.after = Some(ticket);
        waiter.position = self.position;
        self.position += 1;
        waiter.metadata = self.records.of(&waiter.owner).await?;
        Ok(Some(waiter))
    }
}

/// Number of waiters per command.
const STEP: usize = 128;
