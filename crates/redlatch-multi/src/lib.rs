#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod guard;
mod members;
mod multi;
mod red;
mod red_guard;

pub use guard::MultiGuard;
pub use multi::MultiLock;
pub use red::{RedLock, RedLockBuilder};
pub use red_guard::{NodeOutcome, NodeOutcomes, RedGuard};
