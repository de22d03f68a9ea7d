#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod inspect;
mod latch;
mod scripts;
mod set;
mod wait;

pub use inspect::LatchInfo;
pub use latch::CountDownLatch;
pub use set::TrySetCount;
pub use wait::{CountDownAndWait, Wait, WaitFor};
