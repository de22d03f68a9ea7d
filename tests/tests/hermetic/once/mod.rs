//! Jobs that run once per slot.

mod cancel;
mod clock;
mod crash;
#[cfg(feature = "cron")]
mod cron;
mod loss;
mod serve;
