#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod guard;
mod kind;
mod lock;
mod striped;

pub use guard::LockGuard;
pub use lock::{Lock, locks};
pub use striped::StripedLock;

/// Returns the text of the renewal script, for tests that have to recognise it.
#[doc(hidden)]
pub fn renewal_script() -> &'static str {
    kind::LOCK.renewal()
}
