//! Support for redlatch's integration tests: real servers, a proxy that misbehaves on request, and
//! patience.
//!
//! [`server`] and [`proxy`] know nothing of redlatch. They look at servers from outside, through a
//! client of their own, so that what a test asserts does not pass through the code under test.
//!
//! * [`backend`]: what a behaviour is tested on, the embedded engine or a real server, from one
//!   text.
//! * [`copies`]: delivers once more what was sent to an embedded server.
//! * [`fixture`]: what tests of faults have in common.
//! * [`server`]: finds server binaries, starts, stops, kills and inspects servers, clusters and
//!   sentinels.
//! * [`shared`]: clusters and sentinels that live as long as the test process.
//! * [`proxy`]: a TCP proxy that delays, stalls, drops, holds and cuts.
//! * [`matrix`]: runs a test on every server at once.
//! * [`attempts`]: calls of scripts, as of a client that undoes them.
//! * [`saboteur`]: a runtime in which one task of a client panics.
//! * [`split`], [`skewed`]: a client whose messages go another way than its commands, and one whose
//!   clock is wrong.
//! * [`stall`]: tells how long the machine did not let this process run.
//! * [`slow`]: a transport to a server that is slow and not gone.
//! * [`wait`]: polls for a condition with a generous ceiling.
//!
//! # Where tests go
//!
//! * `redlatch-behaviours`, in `tests/behaviours`: what every server has to do, embedded or real.
//!   Each test binary runs it.
//! * `tests/hermetic`: what needs nothing but this process.
//! * `tests/server`: what needs a real server.
//! * `tests/servers`: what needs several real servers that belong together.
//!
//! The last two are built with the feature `servers`. There is no skipping: with the feature on and
//! no server to be found, [`server::ServerBinary::all`] panics and says what to do.

// Support code of tests: a failed expectation is a failed test, and real servers need real clocks
// and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

pub mod attempts;
pub mod backend;
#[cfg(unix)]
pub mod child;
pub mod copies;
#[cfg(unix)]
pub mod fixture;
#[cfg(unix)]
pub mod matrix;
pub mod proxy;
pub mod saboteur;
#[cfg(unix)]
pub mod server;
#[cfg(unix)]
pub mod shared;
pub mod skewed;
pub mod slow;
pub mod split;
pub mod stall;
pub mod wait;

mod port;
