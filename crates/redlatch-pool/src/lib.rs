#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod handle;
mod pool;
mod scripts;

pub use pool::{
    AT_ONCE, AcquirePermits, CHUNK, Flavour, PermitHolder, Pool, SetPermits, Totals,
    TryAcquirePermits, TryAcquirePermitsFor, TrySetPermits,
};
pub use scripts::{Change, Made};
