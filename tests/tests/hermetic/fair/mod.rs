//! The fair lock.

mod full;
mod trouble;
