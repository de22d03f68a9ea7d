//! The plain lock.

mod cancel;
mod closing;
mod collisions;
mod documented;
mod far;
mod foreign;
mod load;
mod local_line;
mod loss;
mod many_threads;
mod mixed_leases;
mod observability;
mod quiet;
mod renewals;
mod succession;
mod successors;
mod wrong_input;
