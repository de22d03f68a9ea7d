//! The kinds of objects.

use std::fmt;

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
    pub(super) fn of(stored: &str) -> Self {
        match stored {
            "lock:1" => Self::Lock,
            "fair:1" => Self::FairLock,
            "rw:1" => Self::ReadWriteLock,
            "semaphore:1" => Self::Semaphore,
            "permits:1" => Self::PermitExpirableSemaphore,
            "latch:1" => Self::CountDownLatch,
            "limit:1" => Self::RateLimiter,
            #[cfg(feature = "once")]
            "once:1" => Self::Job,
            #[cfg(feature = "election")]
            "election:1" => Self::Election,
            #[cfg(feature = "election")]
            "fair_election:1" => Self::FairElection,
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
