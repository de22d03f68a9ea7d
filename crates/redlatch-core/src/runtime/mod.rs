//! The external dependencies of redlatch: a transport, and a runtime with clock, tasks and
//! randomness.
//!
//! A program needs this module for [`TlsOptions`], and for a [`TokioRuntime`] apart from its own.
//! The traits are for another clock or another network: the server inside of the process and the
//! project's simulator implement them. Everything else is the same with each of them.

mod command;
mod tokio_runtime;
mod transport;
#[cfg(test)]
#[path = "tests/values.rs"]
pub(crate) mod values;

#[doc(hidden)]
pub use command::Outcome;
pub use command::{Command, Reply, ServerError, Value};
pub use tokio_runtime::{BoxFuture, Runtime, TokioRuntime};
// Only a transport needs these types, and only crates of this family have one.
#[doc(hidden)]
pub use transport::{
    Address, Conn, Dial, DialError, DialErrorKind, Dialed, Login, Protocol, Purpose, Pushes,
};
pub(crate) use transport::{INVALIDATED, authority};
pub use transport::{Push, TlsOptions, Transport};
