//! The external dependencies of redlatch: a transport, and a runtime with clock, tasks and
//! randomness.
//!
//! All code above these traits (links, router, script sender, hub, engine) is the same in
//! production, over the embedded engine and in the simulator. All code below them is replaceable.

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
