#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod guard;
mod members;
mod multi;
mod red;

pub use guard::{MultiGuard, NodeOutcome, NodeOutcomes, RedGuard};
pub use multi::MultiLock;
pub use red::{RedLock, RedLockBuilder};
