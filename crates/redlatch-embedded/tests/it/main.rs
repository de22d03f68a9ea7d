//! The engine and the transport over it, from outside. No server is needed.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests wait by tokio's clocks"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod commands;
#[cfg(feature = "listen")]
mod listen;
mod lua;
mod rules;
mod support;
mod transport;
