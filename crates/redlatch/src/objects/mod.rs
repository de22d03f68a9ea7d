//! All objects of all kinds, as an observer sees them, and the removal of their records.

mod look;

use std::{fmt, sync::Arc, time::Duration};

use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use redlatch_core::{
    Error, ErrorKind, Metadata, Token,
    family::{About, Forgotten, Name, Records, Scan, forget, invalid_name},
    streams,
};
use redlatch_latch::LatchInfo;
use redlatch_limit::LimitInfo;
use redlatch_rwlock::Access;

use crate::Client;

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// [`Lock`](crate::Lock).
    Lock,
    /// [`FairLock`](crate::FairLock).
    FairLock,
    /// [`ReadWriteLock`](crate::ReadWriteLock).
    ReadWriteLock,
    /// [`Semaphore`](crate::Semaphore).
    Semaphore,
    /// [`PermitExpirableSemaphore`](crate::PermitExpirableSemaphore).
    PermitExpirableSemaphore,
    /// [`CountDownLatch`](crate::CountDownLatch).
    CountDownLatch,
    /// [`RateLimiter`](crate::limit::RateLimiter).
    RateLimiter,
    /// A job that runs once per slot. Needs the feature `once`, otherwise it is [`Other`].
    ///
    /// [`Other`]: Self::Other
    Job,
    /// An election. Needs the feature `election`, otherwise it is [`Other`](Self::Other).
    Election,
    /// An election whose candidates lead in order. As [`Election`](Self::Election).
    FairElection,
    /// The server does not tell the kind: the key has a value of another program, or may not be
    /// read. See [`ObjectState::Unreadable`](crate::ObjectState::Unreadable).
    Unknown,
    /// A kind that this program was built without, or does not know: as the server stores it.
    Other(String),
}

impl ObjectKind {
    /// Returns the kind of what the server stores, such as `lock:1`.
    fn of(stored: &str) -> Self {
        match stored {
            "lock:1" => Self::Lock,
            "fair:1" => Self::FairLock,
            "rw:1" => Self::ReadWriteLock,
            "semaphore:1" => Self::Semaphore,
            "permits:1" => Self::PermitExpirableSemaphore,
            "latch:1" => Self::CountDownLatch,
            "limit:1" => Self::RateLimiter,
            "once:1" if cfg!(feature = "once") => Self::Job,
            "election:1" if cfg!(feature = "election") => Self::Election,
            "fair_election:1" if cfg!(feature = "election") => Self::FairElection,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns one word: `lock`, `fair`, `rw`, `semaphore`, `permits`, `latch`, `limit`, `once`,
    /// `election`, `fair_election`, `unknown`, or what the server stores.
    ///
    /// ```
    /// use redlatch::ObjectKind;
    ///
    /// assert_eq!(ObjectKind::ReadWriteLock.as_str(), "rw");
    /// assert_eq!(ObjectKind::Other("queue:1".to_owned()).as_str(), "queue:1");
    /// ```
    pub fn as_str(&self) -> &str {
        match self {
            Self::Lock => "lock",
            Self::FairLock => "fair",
            Self::ReadWriteLock => "rw",
            Self::Semaphore => "semaphore",
            Self::PermitExpirableSemaphore => "permits",
            Self::CountDownLatch => "latch",
            Self::RateLimiter => "limit",
            Self::Job => "once",
            Self::Election => "election",
            Self::FairElection => "fair_election",
            Self::Unknown => "unknown",
            Self::Other(stored) => stored,
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An object on the server, with its holders.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: ObjectKind,
    /// The holders.
    pub holders: Vec<ObjectHolder>,
    /// Waiters of all clients, as far as the server knows them: for plain locks one per client, as
    /// a rule. Dead ones are counted for a while. Zero for latches, rate limiters and jobs.
    pub waiters: u64,
    /// The properties of objects of this kind besides holders.
    pub state: ObjectState,
}

/// The properties of objects of a kind besides holders.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectState {
    /// Nothing.
    Plain,
    /// Numbers of permits.
    Permits {
        /// The number of permits.
        total: u32,
        /// The number available.
        available: u32,
    },
    /// A latch.
    Latch(LatchInfo),
    /// A rate limiter.
    Limit(LimitInfo),
    /// The value of a leader; `None` before the leader has announced it.
    #[cfg(feature = "election")]
    Leader(Option<String>),
    /// A job: its last run that has ended, and the slot that is under way.
    #[cfg(feature = "once")]
    Job {
        /// The last run that has ended.
        last: Option<redlatch_once::JobRecord>,
        /// The slot of the run that is under way.
        running: Option<redlatch_once::Slot>,
    },
    /// The object cannot be read, and nothing but its name is certain. Holders and waiters are
    /// missing, and so may be the kind.
    Unreadable {
        /// The class of the error: `WrongKind` for values of another program, `Protocol` for a
        /// record that cannot be understood, and `Permission` for a key that the user may not read.
        kind: ErrorKind,
        /// The text of the error.
        reason: String,
    },
}

/// A holder of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectHolder {
    /// The owner, `<client>:<n>`. For permits, the name of the hold, which has the same form.
    pub owner: String,
    /// The rights of a holder of a read-write lock.
    pub access: Option<Access>,
    /// The number of permits of a semaphore.
    pub permits: Option<u32>,
    /// The fencing token. `None` for permits, which have none.
    pub token: Option<Token>,
    /// How long it has been held, by the server's clock. `None` where the server does not store it.
    pub age: Option<Duration>,
    /// How long the lease lasts if it is not renewed.
    pub remaining: Duration,
    /// Host, process and application; `None` if the client's record is gone.
    pub metadata: Option<Metadata>,
    /// The note of the hold, if it has one.
    pub note: Option<String>,
    /// The client that has forbidden the renewal, and its reason. Empty if the record has neither.
    /// `None` if the hold may be renewed.
    pub broken: Option<String>,
}

/// The objects of all kinds, found in bounded steps. A stream; see [`Client::objects`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct Objects(BoxStream<'static, Result<Object, Error>>);

streams! {
    Objects => Object;
}

impl Objects {
    fn new(client: &Client, pattern: &str) -> Self {
        let shared = Arc::new((client.clone(), Records::new(client)));
        let steps = stream::try_unfold(Scan::new(client, pattern), async |mut scan: Scan| {
            Ok(scan.step().await?.map(|names| (names, scan)))
        });
        let found = steps
            .map_ok(|names| stream::iter(names.into_iter().map(Ok)))
            .try_flatten()
            .map(move |name: Result<Name, Error>| {
                let shared = Arc::clone(&shared);
                async move { look::entry(&shared.0, &shared.1, &name?).await }
            })
            .buffered(AT_ONCE)
            .filter_map(async |found| found.transpose());
        // It ends after the first error.
        let until_error = stream::try_unfold(Box::pin(found), async |mut found| {
            Ok(found.try_next().await?.map(|object| (object, found)))
        });
        Self(Box::pin(until_error))
    }

    /// Returns the next object. Returns `None` at the end and after an error. An object that cannot
    /// be read does not end the walk: the method returns it with [`ObjectState::Unreadable`].
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// let mut objects = client.objects("orders:*");
    /// while let Some(object) = objects.next().await {
    ///     let object = object?;
    ///     println!("{} is a {} with {} holders", object.name, object.kind, object.holders.len());
    ///     # assert_eq!(object.holders[0].token, Some(guard.token()));
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads. If the future is dropped, the next call returns the item in progress.
    pub async fn next(&mut self) -> Option<Result<Object, Error>> {
        self.0.next().await
    }
}

impl Client {
    /// Returns a stream of the objects of all kinds whose name matches `pattern` (`*`, `?`,
    /// `[a-z]`, `\` to escape), with holders, waiters and the last run of a job.
    ///
    /// The stream omits a lock, an election, or another object that exists by its holders only,
    /// while it has no holder. Semaphores, latches, jobs and rate limiters are returned as long as
    /// they exist.
    ///
    /// # Cost
    ///
    /// One `SCAN` per 256 keys of each master, one command per name under the prefix, and one to
    /// three more per object that exists. The record of a client is requested once per 1,024
    /// clients, or once per object for read-write locks and semaphores. 32 objects are requested at
    /// the same time, over one connection per server. No command examines more than 256 keys or
    /// holders. The memory needed is that of one step and of 32 objects with their holders, however
    /// many objects there are.
    ///
    /// As with `SCAN`, the stream may return an object twice, and may miss an object that comes or
    /// goes in the meantime. The inspection of a semaphore removes holds whose lease has ended, so
    /// it needs the rights of a user of the semaphore.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.fair_lock("orders:42").lock().await?;
    /// let mut objects = client.objects("orders:*");
    /// while let Some(object) = objects.next().await {
    ///     let object = object?;
    ///     println!("{} {} is held by {:?}", object.kind, object.name, object.holders);
    ///     assert_eq!(object.holders[0].token, Some(guard.token()));
    /// }
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub fn objects(&self, pattern: &str) -> Objects {
        Objects::new(self, pattern)
    }

    /// Returns the object called `name`, of any kind. Returns `None` if the object does not exist,
    /// or if it exists by its holders only and has none. Costs one command, and as
    /// [`objects`](Self::objects) for the object.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::ObjectKind;
    ///
    /// let permit = client.semaphore("api").permits_if_unset(8).acquire().await?;
    /// let object = client.object("api").await?.expect("the semaphore exists");
    /// assert_eq!(object.kind, ObjectKind::Semaphore);
    /// assert_eq!(object.holders.len(), 1);
    /// assert!(client.object("no such name").await?.is_none());
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). `WrongKind` if a value of another program
    /// has the key, `Protocol` if the record cannot be understood.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn object(&self, name: &str) -> Result<Option<Object>, Error> {
        let name = Name::parse(name).map_err(invalid_name)?;
        look::look(self, &name).await
    }

    /// Removes the record of `name` from the server if the record is not in use. The name may then
    /// become an object of another kind. The method is for administrators and deployments. Programs
    /// do not need it between two holds.
    ///
    /// A freed lock leaves a record with its last token and its kind for the client's
    /// [`token_retention`](crate::common::ClientBuilder::token_retention), 10 minutes by default. A
    /// semaphore has a record until it is deleted. As long as the record is there, an object of
    /// another kind fails with `WrongKind`.
    ///
    /// The server checks and removes in one step. A record that is in use stays, and the result
    /// says why. The numbers of permits of a semaphore go with its record; its participants get
    /// `NotSet` until it is set again.
    ///
    /// For 5 s after the last use, late copies of requests may come. The call waits for the end of
    /// that time.
    ///
    /// Tokens still rise: a token of the new object is the server's time, and the record of a token
    /// that is not below that time stays. The next holder does not learn that the last one has
    /// never released.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// use redlatch::Forgotten;
    ///
    /// # let client = redlatch::Client::embedded().await?;
    /// let guard = client.lock("orders:42").lock().await?;
    /// let token = guard.token();
    /// assert_eq!(client.forget("orders:42").await?, Forgotten::Held);
    /// guard.release().await?;
    ///
    /// assert!(client.fair_lock("orders:42").lock().await.is_err()); // it is still a lock
    /// assert_eq!(client.forget("orders:42").await?, Forgotten::Done);
    /// assert!(client.fair_lock("orders:42").lock().await?.token() > token);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidName`. `WrongKind` if the record is that of another program, or of a kind that this
    /// version does not know. Otherwise as [`Objects::next`](crate::Objects::next).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the record is removed or not, within 5 s.
    pub async fn forget(&self, name: &str) -> Result<Forgotten, Error> {
        let name = Name::parse(name).map_err(invalid_name)?;
        forget(self, &name).await.about("object", name.as_str())
    }
}

/// How many objects are requested at the same time.
const AT_ONCE: usize = 32;
