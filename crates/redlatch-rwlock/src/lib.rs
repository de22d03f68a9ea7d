#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod guard;
mod inspect;
mod lock;
mod scripts;

pub use guard::{ReadGuard, UpgradableReadGuard, WriteGuard};
pub use inspect::{Access, ReadWriteHolder, ReadWriteInfo};
pub use lock::{ForceEnd, ReadWriteLock, ReadWriteSide};
