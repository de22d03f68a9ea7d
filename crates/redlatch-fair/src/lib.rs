#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod lock;
mod scripts;
mod waiters;

pub use lock::{FairLock, FairLockGuard, fair_locks};
pub use waiters::{Waiter, Waiters};
