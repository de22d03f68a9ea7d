#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod client;
#[cfg(feature = "embedded")]
pub mod embedded;

pub use client::{Client, ClientBuilder};
pub use redlatch_core::exclusive::{Exclusive, ForceRelease, Holder, LockInfo, Locks};
pub use redlatch_core::{
    Acquire, Backoff, ClientId, Error, ErrorKind, Held, HoldState, Jitter, Lockable, LossCause,
    Member, Metadata, Moment, Owner, Released, Tables, Token, TryAcquire, TryAcquireFor,
    WaitStrategy, seam,
};
pub use redlatch_fair::{FairLock, FairLockGuard, Waiter, Waiters};
pub use redlatch_latch::{CountDownAndWait, CountDownLatch, LatchInfo, TrySetCount, Wait, WaitFor};
pub use redlatch_multi::{
    MultiGuard, MultiLock, NodeOutcome, NodeOutcomes, RedGuard, RedLock, RedLockBuilder,
};
pub use redlatch_reentrant::{Lock, LockGuard};
