//! The fair lock on real servers, with processes that are killed and stopped.

mod processes;
