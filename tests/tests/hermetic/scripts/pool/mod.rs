//! The scripts of the pool that the semaphores share.

pub(crate) mod calls;
mod crowds;
mod fuzz;
mod laws;
mod model;
mod waiters;
