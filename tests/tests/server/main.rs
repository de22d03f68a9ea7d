//! Tests that need a real server each, or one beside another that has nothing to do with it. Each
//! runs on every server of `REDLATCH_TEST_SERVERS`, or of the `PATH`.

// Tests say what they expect, and real servers need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]
#![cfg(unix)]

mod addresses;
mod answers;
mod clock_set;
mod compat;
mod connections;
mod cost;
mod errors;
mod foreign;
mod lifecycle;
mod lost_replies;
mod managed;
mod merged;
mod prelude;
mod refusals;
mod restart;
mod rights;
mod slots;
mod storm;
mod unknown;
