//! Jobs that run once per slot.

mod cancel;
mod clock;
mod crash;
mod loss;
mod serve;
mod summer_time;
