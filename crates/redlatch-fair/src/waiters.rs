//! The waiters of a fair lock.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use futures_util::stream;
use redlatch_core::{
    Client, Error, Metadata,
    exclusive::Exclusive,
    family::{About, Internals, Key},
};

use crate::scripts::{Listed, WaitersScript};

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
pub struct Waiters(Pin<Box<dyn Stream<Item = Result<Waiter, Error>> + Send>>);

impl Waiters {
    pub(crate) fn new(handle: &Exclusive) -> Self {
        let walk = handle.key().map(|key| Walk {
            client: handle.client().clone(),
            key: key.clone(),
            after: None,
            found: VecDeque::new(),
            position: 0,
            records: BTreeMap::new(),
            ended: false,
        });
        Self(Box::pin(stream::unfold(Some(walk), |walk| async move {
            let mut walk = match walk? {
                Ok(walk) => walk,
                Err(error) => return Some((Err(error), None)),
            };
            match walk.next().await {
                Ok(Some(waiter)) => Some((Ok(waiter), Some(Ok(walk)))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })))
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
        std::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Waiters {
    type Item = Result<Waiter, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

struct Walk {
    client: Client,
    key: Key,
    /// Ticket of the last waiter found.
    after: Option<u64>,
    found: VecDeque<Listed>,
    position: u64,
    /// The descriptions of clients, requested once for each.
    records: BTreeMap<String, Option<Metadata>>,
    ended: bool,
}

impl Walk {
    async fn next(&mut self) -> Result<Option<Waiter>, Error> {
        if self.found.is_empty() && !self.ended {
            let script = WaitersScript {
                key: &self.key,
                after: self.after,
                count: STEP,
            };
            let reply = self.client.query(&script.call()).await;
            let found = reply.and_then(|reply| WaitersScript::decode(&reply));
            self.found = found.about("fair_lock", self.key.name())?.into();
            self.ended = self.found.len() < STEP;
        }
        let Some(listed) = self.found.pop_front() else {
            return Ok(None);
        };
        self.after = Some(listed.ticket);
        let position = self.position;
        self.position += 1;
        let metadata = self.metadata(&listed.owner).await?;
        Ok(Some(Waiter {
            owner: listed.owner,
            position,
            waiting: listed.age,
            alive_for: listed.alive,
            metadata,
        }))
    }

    async fn metadata(&mut self, owner: &str) -> Result<Option<Metadata>, Error> {
        let client = owner.split(':').next().unwrap_or_default();
        if let Some(known) = self.records.get(client) {
            return Ok(known.clone());
        }
        let metadata = self.client.metadata(owner).await?;
        self.records.insert(client.to_owned(), metadata.clone());
        Ok(metadata)
    }
}

/// Number of waiters per command.
const STEP: usize = 128;
