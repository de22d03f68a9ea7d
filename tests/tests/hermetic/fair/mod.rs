//! The fair lock.

mod cancel;
mod full;
mod grants;
mod scripts;
mod trouble;
