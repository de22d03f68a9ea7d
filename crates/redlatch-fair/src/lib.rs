#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod guard;
mod kind;
mod lock;
mod scripts;
mod waiters;

pub use guard::FairLockGuard;
pub use lock::{FairLock, fair_locks};
pub use waiters::{Waiter, Waiters};
