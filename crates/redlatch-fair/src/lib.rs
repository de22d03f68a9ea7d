#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod lock;
mod scripts;

pub use lock::{FairLock, FairLockGuard, Waiter, Waiters, fair_locks};
