//! The handle of a fair lock, and its waiters.

use std::{collections::VecDeque, ops::Deref, time::Duration};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use redlatch_core::{
    Acquire, Client, Error, Lockable, Member, Metadata, Owner, TryAcquire, TryAcquireFor,
    exclusive::{Exclusive, Locks},
    family::{Handle, Records},
    streams,
};

use crate::scripts::{self, FAIR_LOCK};

/// A reentrant lock under one name whose waiters are served in order of arrival.
///
/// `Client::fair_lock` creates a handle. Exclusion, re-entry, loss, failover and a holder that dies
/// are as with [`Lock`](../redlatch/struct.Lock.html). These points differ:
///
/// * **Order**: by the arrival of the waiters' first requests at the server. A
///   [`try_lock`](Self::try_lock) never overtakes a waiter. A release gives the lock to the first
///   waiter, or calls a waiter that has to ask. A server that loses its data loses the order, and
///   the waiters queue again.
/// * **A lost place**: a waiter loses its place if its client sends nothing for 5 s, or if the
///   waiter is called and does not ask within 5 s. If the waiter is still alive, the waiter gets a
///   new place at the end.
/// * **A waiter that dies** is skipped. The others wait for 5 s at most. Several waiters that died
///   together cost 5 s in total.
///
/// The lock derefs to [`Exclusive`], which inspects the lock and forces a release.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let lock = client.fair_lock("printer");
/// let first = lock.lock().await?;
/// let second = tokio::spawn(lock.lock().into_future()); // waits
/// # tokio::time::sleep(std::time::Duration::from_millis(1)).await;
/// // A new caller does not overtake the waiter, even when the lock is released.
/// first.release().await?;
/// assert!(lock.try_lock().await?.is_none());
/// second.await.expect("no panic")?.release().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("mutex", "RFairLock", "getFairLock"))]
#[derive(Clone, Debug)]
pub struct FairLock(Exclusive);

impl FairLock {
    /// Creates a handle of the lock called `name`, as `Client::fair_lock` does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self(Exclusive::new(client, &FAIR_LOCK, name.as_ref()))
    }

    /// Labels the metrics and events of this handle with `class`, for example with the purpose of
    /// the lock. Names are never used as labels.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self(self.0.class(class))
    }

    /// Acquires the lock, and waits until the turn of this caller has come.
    ///
    /// Await the returned builder. The builder has options, such as [`lease`](Acquire::lease),
    /// [`note`](Acquire::note) and [`owner`](Acquire::owner).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let lock = client.fair_lock("printer");
    /// let guard = lock.lock().note("page 1").await?;
    /// let (mut queue, mut last) = (Vec::new(), guard.token());
    /// for page in 2..5 {
    ///     let waiter = lock.lock().note(&format!("page {page}"));
    ///     queue.push(tokio::spawn(waiter.into_future()));
    ///     # tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    /// }
    /// drop(guard);
    /// for waiter in queue {
    ///     let guard = waiter.await.expect("no panic")?; // in the order of arrival
    ///     assert!(guard.token() > std::mem::replace(&mut last, guard.token()));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands for acquire and release, also with waiters: the request of a waiter queues it,
    /// and the release before grants the lock without a further request. The first renewal of such
    /// a grant is due within 250 to 500 ms and costs one more command for a hold that lasts longer.
    /// One command more for a waiter that is called and asks, for example with
    /// [`whole_lease`](Acquire::whole_lease) or with a lease of less than 1 s. One every two
    /// seconds per client, sent by its first waiter for all of them. The time of a command grows at
    /// most with the logarithm of the queue's length.
    ///
    /// # Errors
    ///
    /// Those of [every acquisition](Error#errors-of-every-acquisition). A lock that another owner
    /// holds is not an error.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. A grant is released in the background, the place in
    /// the queue is given up, and the next waiter gets the turn.
    #[doc(alias = "acquire")]
    pub fn lock(&self) -> Acquire<FairLockGuard> {
        Acquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock if the lock is free now and has no waiters. Returns `None` otherwise.
    ///
    /// Sends one request. If the answer is lost, the request is repeated within the client's
    /// `patience`. Errors and cancel safety as [`lock`](Self::lock). Costs one command, and one for
    /// the release.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let lock = client.fair_lock("nightly");
    /// let guard = lock.try_lock().await?;
    /// assert!(guard.is_some());
    /// assert!(lock.try_lock().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "tryLock")]
    pub fn try_lock(&self) -> TryAcquire<FairLockGuard> {
        TryAcquire::new(self.client(), self.primitive())
    }

    /// Acquires the lock and waits up to `wait`. Returns `None` if the turn of this caller did not
    /// come.
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
    /// let lock = client.fair_lock("checkout");
    /// let guard = lock.lock().await?;
    /// let second = Duration::from_secs(1);
    /// let busy = lock.try_lock_for(second).await?.is_none(); // leaves the queue after a second
    /// assert!(busy);
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<FairLockGuard> {
        TryAcquireFor::new(self.client(), self.primitive(), wait)
    }
}

impl FairLock {
    /// Lists the waiters in order, with the records of their clients. The stream requests 128
    /// waiters at a time, and each client's record once.
    ///
    /// The list may omit waiters that come or go in the meantime. No waiter is listed twice.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let lock = client.fair_lock("printer");
    /// let guard = lock.lock().await?;
    /// let _next = tokio::spawn(lock.lock().into_future());
    /// # tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    ///
    /// let mut waiters = lock.waiters();
    /// while let Some(waiter) = waiters.next().await {
    ///     let waiter = waiter?;
    ///     println!("{}: {} for {:?}", waiter.position, waiter.owner, waiter.waiting);
    ///     # assert_eq!(waiter.position, 0);
    /// }
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn waiters(&self) -> Waiters {
        Waiters::new(self.0.handle())
    }

    /// Returns the number of waiters before `owner`, which waits in this process. Returns `None` if
    /// `owner` does not wait. Costs one command.
    ///
    /// The number is an upper bound, since the server counts dead waiters until a script removes
    /// them. If `owner` waits several times, the first wait counts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let lock = client.fair_lock("printer");
    /// let guard = lock.lock().await?;
    /// let owner = client.owner();
    /// let waiting = tokio::spawn(lock.lock().owner(&owner).into_future());
    /// # tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    /// assert_eq!(lock.position(&owner).await?, Some(0)); // the next
    /// # drop(guard); drop(waiting);
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
    pub async fn position(&self, owner: &Owner) -> Result<Option<u64>, Error> {
        let Some(address) = self.0.waiting(owner)? else {
            return Ok(None);
        };
        let call = scripts::position(self.0.handle().key()?, &address);
        self.0.handle().ask(call, scripts::positioned).await
    }
}

impl Lockable for FairLock {
    fn member(&self) -> Result<Member, Error> {
        self.0.member()
    }
}

impl Deref for FairLock {
    type Target = Exclusive;

    fn deref(&self) -> &Exclusive {
        &self.0
    }
}

/// Finds held fair locks whose name matches `pattern`; see [`Locks`].
pub fn fair_locks(client: &Client, pattern: &str) -> Locks {
    Locks::new(client, &FAIR_LOCK, pattern)
}

redlatch_core::guards! {
    /// A hold of a [`FairLock`](crate::FairLock). Dropping the guard releases in the background.
    /// [`release`](Self::release) also returns the outcome.
    ///
    /// Drop, loss and exit are as with [`LockGuard`](../redlatch/struct.LockGuard.html). The guard
    /// derefs to [`Held`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # async fn load() -> u32 { 41 }
    /// let guard = client.fair_lock("counter").lock().await?;
    /// let value = guard.run(load()).await?;
    /// guard.check()?;
    /// println!("SET counter = {value} with token {}", guard.token());
    /// assert!(guard.release().await?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    FairLockGuard;
}

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
    fn new(handle: &Handle) -> Self {
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
