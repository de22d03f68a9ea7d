#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod client;
#[cfg(feature = "embedded")]
pub mod embedded;

pub use client::{Client, ClientBuilder};
pub use redlatch_core::{
    Backoff, ClientId, Error, ErrorKind, HoldState, LossCause, Metadata, Moment, Owner, Released,
    Tables, Token, WaitStrategy, seam,
};
pub use redlatch_latch::{CountDownAndWait, CountDownLatch, LatchInfo, TrySetCount, Wait, WaitFor};
pub use redlatch_reentrant::{
    Acquire, ForceRelease, Holder, Lock, LockGuard, LockInfo, Locks, TryAcquire, TryAcquireFor,
};
