//! The fair lock on real servers that fill up, with processes that are killed and stopped.

mod full;
mod processes;
