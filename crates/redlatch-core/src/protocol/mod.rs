//! Pure decisions: std only, no await, no clock, no randomness. `now` and random bits are arguments.
//!
//! A type here is told what happened and answers what to do next; the loops in the engine do it.

pub mod backoff;
pub mod classify;
pub mod durability;
pub mod glob;
pub mod hold;
pub mod lease;
pub mod name;
pub mod outage;
pub mod phase_watch;
pub mod rate_limiter;
pub mod renewal;
pub mod renewal_window;
pub mod server_clock;
pub mod server_clocks;
pub mod sleep_deadline;
pub mod slot;
pub mod small_map;
pub mod time;
pub mod turn;
pub mod waiter;
