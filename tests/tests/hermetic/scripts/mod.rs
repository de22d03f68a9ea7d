//! The scripts by themselves, on the embedded engine: replies and data against a model that forgets
//! nothing.

pub(crate) mod bed;
pub(crate) mod costs;
pub(crate) mod driver;
mod fence;
mod fuzz;
mod latch;
mod latch_model;
mod laws;
mod limit;
pub(crate) mod model;
mod once;
mod once_model;
pub(crate) mod pool;
pub(crate) mod rwlock;
pub(crate) mod spent;
