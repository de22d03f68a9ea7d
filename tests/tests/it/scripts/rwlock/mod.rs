//! The scripts of the read-write lock by themselves, on the embedded engine.

mod calls;
mod fuzz;
mod laws;
mod model;
mod told;
