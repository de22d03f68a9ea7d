//! The fair lock on real servers: many processes, and a server that is out of memory.

mod processes;
