//! The scripts of the fair lock by themselves, on the embedded engine.

mod channels;
mod costs;
mod fuzz;
mod model;
mod words;
