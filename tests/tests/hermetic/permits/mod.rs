//! The permit-expirable semaphore.

mod behaviour;
mod cancel;
mod many;
mod trouble;
