#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod lock;
mod striped;

pub use lock::{Lock, LockGuard, locks};
pub use striped::StripedLock;

/// Returns the text of the renewal script, for tests that have to recognise it.
#[doc(hidden)]
pub fn renewal_script() -> &'static str {
    lock::LOCK.scripts.renew.text
}
