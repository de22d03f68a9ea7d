#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod acquire;
mod counted;
mod handle;
mod inspect;
mod pool;
mod scripts;
mod set;

pub use acquire::{AcquirePermits, TryAcquirePermits, TryAcquirePermitsFor};
pub use inspect::{Described, Hold, Totals};
pub use pool::{AT_ONCE, Flavour, Pool};
pub use set::{SetPermits, TrySetPermits};
