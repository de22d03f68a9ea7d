//! The fair lock.

mod cancel;
mod full;
mod scripts;
mod trouble;
