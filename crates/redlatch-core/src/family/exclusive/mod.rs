//! What every kind has in common that one owner holds at a time: its handle, looking at it from
//! outside, and ending its hold by force.

mod force;
mod handle;
mod inspect;
mod kind;
#[cfg(test)]
mod tests;

pub use force::ForceRelease;
pub use handle::Exclusive;
pub use inspect::{Holder, LockInfo, Locks};
#[doc(hidden)]
pub use kind::Kind;
