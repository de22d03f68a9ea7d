//! The scripts of the read-write lock by themselves, on the embedded engine.

mod fuzz;
mod handoff;
mod laws;
mod model;
mod told;
