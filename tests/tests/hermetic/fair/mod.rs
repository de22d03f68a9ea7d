//! The fair lock.

mod cancel;
mod full;
mod trouble;
