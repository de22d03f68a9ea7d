#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod guard;
mod semaphore;

pub use guard::SemaphorePermit;
pub use redlatch_pool::{
    AcquirePermits, PermitHolder, SetPermits, Totals, TryAcquirePermits, TryAcquirePermitsFor,
    TrySetPermits,
};
pub use semaphore::Semaphore;
