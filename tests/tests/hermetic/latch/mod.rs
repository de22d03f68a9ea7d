//! The countdown latch.

mod cancel;
mod forgotten;
mod trouble;
mod waiting;
