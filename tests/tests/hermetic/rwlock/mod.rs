//! The read-write lock.

mod cancel;
mod trouble;
