//! The scripts of the plain lock by themselves, on the embedded engine: replies and data against a model that forgets nothing.

mod bed;
mod costs;
mod fuzz;
mod laws;
mod model;
mod pool;
