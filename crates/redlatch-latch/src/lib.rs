#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod latch;
mod scripts;

pub use latch::{CountDownAndWait, CountDownLatch, LatchInfo, TrySetCount, Wait, WaitFor};
