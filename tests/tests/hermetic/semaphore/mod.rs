//! The semaphore.

mod cancel;
mod fairness;
mod grants;
mod resize;
mod trouble;
