//! The read-write lock.

mod cancel;
mod grants;
