//! The external dependencies of redlatch: a transport, and a runtime with clock, tasks and
//! randomness.
//!
//! All code above these traits (links, router, script sender, hub, engine) is the same in
//! production, over the embedded engine and in the simulator. All code below them is replaceable.

mod command;
mod strings;
mod tokio_runtime;
mod transport;
#[cfg(test)]
pub(crate) mod values;

#[doc(hidden)]
pub use command::Outcome;
pub use command::{Command, Reply, ServerError, Value};
pub(crate) use strings::Strings;
pub use tokio_runtime::{BoxFuture, Runtime, TokioRuntime};
// Only a transport needs these types, and only crates of this family have one.
#[doc(hidden)]
pub use transport::{
    Address, Conn, Dial, DialError, DialErrorKind, Dialed, Login, Protocol, Purpose, Pushes,
};
pub use transport::{Push, TlsOptions, Transport};
