//! The countdown latch.

mod cancel;
mod trouble;
mod waiting;
