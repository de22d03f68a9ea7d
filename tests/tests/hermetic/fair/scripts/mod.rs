//! The scripts of the fair lock by themselves, on the embedded engine.

mod channels;
mod costs;
mod fuzz;
mod model;

/// The one name.
const NAME: &str = "x";
