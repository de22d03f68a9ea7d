//! The fair lock.

pub mod dead;
pub mod load;
pub mod order;
pub mod support;
