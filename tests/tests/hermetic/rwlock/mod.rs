//! The read-write lock.

mod cancel;
