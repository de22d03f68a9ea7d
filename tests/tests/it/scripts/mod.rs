//! The scripts by themselves, on the embedded engine: replies and data against a model that forgets nothing.

mod bed;
mod costs;
mod fuzz;
mod latch;
mod latch_model;
mod laws;
mod model;
mod pool;
