//! The semaphore.

mod cancel;
mod fairness;
mod resize;
mod trouble;
