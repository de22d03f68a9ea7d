//! The permit-expirable semaphore.

pub mod behaviour;
