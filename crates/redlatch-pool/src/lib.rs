#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod handle;
mod pool;
mod scripts;
mod set;

pub use pool::{
    AT_ONCE, AcquirePermits, CHUNK, Flavour, PermitHolder, Pool, Totals, TryAcquirePermits,
    TryAcquirePermitsFor,
};
pub use set::{SetPermits, TrySetPermits};
