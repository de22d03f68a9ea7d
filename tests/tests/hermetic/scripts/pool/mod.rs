//! The scripts of the pool that the semaphores share.

mod calls;
mod costs;
mod crowds;
mod fuzz;
mod laws;
mod model;
mod waiters;
