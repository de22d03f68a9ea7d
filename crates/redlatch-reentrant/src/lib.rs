#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod guard;
mod inspect;
mod lock;
mod scripts;

pub use guard::LockGuard;
pub use inspect::{ForceRelease, Holder, LockInfo, Locks};
pub use lock::Lock;

/// Returns the text of the script that renews, for tests that tell it from others.
#[doc(hidden)]
pub fn renewal_script() -> &'static str {
    redlatch_lua::REENTRANT.renew.text
}
