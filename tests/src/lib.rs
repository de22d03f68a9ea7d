//! Support for redlatch's integration tests: real servers, a proxy with faults on request, and
//! polling with generous limits.
//!
//! [`server`] and [`proxy`] do not depend on redlatch. They inspect servers from outside, through a
//! client of their own, so that an assertion does not pass through the code under test.
//!
//! * [`calls`]: the calls of each kind, for tests of what all have in common.
//! * [`backend`]: the servers of a behaviour, the embedded engine or a real server, for one source.
//! * [`copies`]: delivers copies of requests to an embedded server.
//! * [`fixture`]: helpers that the fault tests share.
//! * [`hold`]: one face for guards, permits with ids, and runs of jobs.
//! * [`server`]: finds server binaries, starts, stops, kills and inspects servers, clusters and
//!   sentinels.
//! * [`shared`]: clusters and sentinels that live as long as the test process.
//! * [`proxy`]: a TCP proxy that delays, stalls, drops, holds and cuts.
//! * [`resp`]: the values of the servers' protocol.
//! * [`gate`]: a server that demands passwords.
//! * [`matrix`]: runs a test on every server at once.
//! * [`saboteur`]: a runtime in which one task of a client panics.
//! * [`split`], [`skewed`]: a client with separate ways for messages and commands, and one with a
//!   wrong clock.
//! * [`slow`]: transports to a server that is slow but alive.
//! * [`wait`]: polls for a condition with a generous limit.
//!
//! # Where tests go
//!
//! * `redlatch-behaviours`, in `tests/behaviours`: the behaviours of every server, embedded or
//!   real. The program `behaviours` runs them.
//! * `tests/hermetic`: tests that need only this process.
//! * `tests/server`: tests that need a real server.
//! * `tests/servers`: tests that need a group of real servers.
//!
//! The last two are built with the feature `servers`. No test is skipped: if the feature is on and
//! no server is found, [`server::ServerBinary::all`] panics and says how to get one.

// This is support code of tests: a failed expectation is a failed test, and real servers need real
// clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

#[cfg(unix)]
pub mod backend;
pub mod calls;
#[cfg(unix)]
pub mod child;
pub mod copies;
#[cfg(unix)]
pub mod fixture;
pub mod gate;
pub mod hold;
#[cfg(unix)]
pub mod matrix;
pub mod proxy;
pub mod resp;
pub mod running;
pub mod saboteur;
#[cfg(unix)]
pub mod server;
#[cfg(unix)]
pub mod shared;
pub mod skewed;
#[cfg(unix)]
pub mod slow;
pub mod split;
pub mod wait;

mod port;
