//! The semaphore.

mod cancel;
mod trouble;
