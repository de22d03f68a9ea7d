//! The semaphore.

mod cancel;
