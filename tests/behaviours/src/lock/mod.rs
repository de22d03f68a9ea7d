//! The plain lock.

pub mod behaviour;
pub mod loss;
pub mod waiting;
pub mod wrong_input;
