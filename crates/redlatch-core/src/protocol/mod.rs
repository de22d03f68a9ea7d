//! Pure decisions: std only, no await, no clock, no randomness. The caller passes `now` and the
//! random bits as arguments.
//!
//! Each type takes events as inputs and returns the next action. The loops in the engine execute
//! that action.

pub(crate) mod apart;
pub(crate) mod backoff;
pub(crate) mod classify;
pub(crate) mod durability;
pub(crate) mod glob;
pub(crate) mod grant;
pub(crate) mod hold;
pub(crate) mod lease;
pub(crate) mod name;
pub(crate) mod outage;
pub(crate) mod phase_watch;
pub(crate) mod remains;
pub(crate) mod renewal;
pub(crate) mod renewal_window;
pub(crate) mod rights;
pub(crate) mod server_clock;
pub(crate) mod slot;
pub(crate) mod small_map;
pub(crate) mod time;
pub(crate) mod turn;
pub(crate) mod waiter;
