//! What redlatch takes from outside: a transport, and a runtime with clock, tasks and randomness.
//!
//! Everything above it (links, router, script sender, hub, engine) is the same code in production,
//! over the embedded engine and in the simulator. Everything below it is replaceable.

mod command;
mod strings;
mod tokio_runtime;
mod transport;

pub use command::{Command, Outcome, Reply, ServerError, Value};
pub(crate) use strings::Strings;
pub use tokio_runtime::{BoxFuture, Runtime, TokioRuntime};
pub use transport::{
    Address, Conn, Dial, DialError, DialErrorKind, Dialed, Login, Protocol, Purpose, Push, Pushes,
    TlsOptions, Transport,
};
