//! The common part of all kinds that one owner holds at a time: the handle, the inspection from
//! outside, and the end of a hold by force.

mod handle;
mod inspect;
mod kind;
#[cfg(test)]
mod tests;

pub use handle::{Exclusive, ForceRelease};
pub use inspect::{Holder, LockInfo, Locks};
#[doc(hidden)]
pub use kind::Kind;
