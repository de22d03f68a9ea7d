#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod guard;
mod redisson;
mod scripts;
mod setnx;

pub use guard::UnfencedGuard;
pub use redisson::{Redisson, RedissonInfo};
pub use setnx::{SetNx, SetNxInfo};
