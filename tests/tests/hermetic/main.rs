//! Tests that need nothing but this process: a module per subject.

// Tests say what they expect, and real servers need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod abandonment;
mod blocking;
mod cancel;
mod certificates;
mod clock_allowance;
mod compat;
mod connecting;
mod convenience;
mod copies;
mod credentials;
mod deposed;
mod election;
mod errors;
mod fail_fast;
mod fair;
mod fence;
mod forget;
mod grants;
#[cfg(unix)]
mod identity;
mod latch;
mod limit;
mod listen;
mod lock;
mod multi;
mod once;
mod operate;
mod outages;
mod permits;
mod polling;
mod prelude;
mod refused;
mod releases;
mod renewal_connection;
mod runtime_end;
mod rwlock;
mod scripts;
mod semaphore;
mod spawning;
mod spent;
mod timed;
mod trouble;
mod ways;
mod withdrawals;
mod wrong_input;
