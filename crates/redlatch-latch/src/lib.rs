#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod builders;
mod latch;
mod scripts;

pub use builders::{CountDownAndWait, TrySetCount, Wait, WaitFor};
pub use latch::{CountDownLatch, LatchInfo};
