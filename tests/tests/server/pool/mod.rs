//! The two semaphores on real servers: holders that are killed and stopped, and networks that lose
//! what was said.

mod gate;
mod processes;
mod trouble;
