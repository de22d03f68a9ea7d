//! The fair lock.

mod order;
mod support;
mod surface;
