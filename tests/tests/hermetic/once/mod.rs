//! Jobs that run once per slot.

mod cancel;
mod crash;
mod loss;
mod serve;
mod summer_time;
