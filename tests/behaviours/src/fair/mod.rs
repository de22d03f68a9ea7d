//! The fair lock.

pub mod dead;
pub mod full;
pub mod load;
pub mod order;
pub mod support;
pub mod surface;
