#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod force;
mod guard;
mod inspect;
mod lock;
mod scripts;

pub use force::ForceEnd;
pub use guard::{ReadGuard, UpgradableReadGuard, WriteGuard};
pub use inspect::{Access, ReadWriteHolder, ReadWriteInfo};
pub use lock::{ReadWriteLock, ReadWriteSide};

/// Returns the text of the renewal script, for tests that have to recognise it.
#[doc(hidden)]
pub fn renewal_script() -> &'static str {
    redlatch_lua::RWLOCK.renew.text
}
