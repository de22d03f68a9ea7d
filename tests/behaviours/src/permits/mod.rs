//! The permit-expirable semaphore.

pub mod behaviour;
pub mod many;
