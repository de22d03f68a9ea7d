//! The scripts of the plain lock by themselves, on the embedded engine: replies and data against a model that forgets nothing.

pub(crate) mod bed;
pub(crate) mod costs;
mod fuzz;
mod laws;
pub(crate) mod model;
mod pool;
