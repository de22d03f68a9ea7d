//! The plain lock.

mod cancel;
mod closing;
mod collisions;
mod entries;
mod far;
mod foreign;
mod later_holds;
mod load;
mod local_handoff;
mod local_queue;
mod loss;
mod many_threads;
mod mixed_leases;
mod notes;
pub(crate) mod observability;
mod quiet;
mod renewals;
