//! The permit-expirable semaphore.

mod cancel;
mod trouble;
