#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

pub mod engine;

#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "listen")]
mod listen;
mod server;
mod shared;
mod stepped;
mod transport;
mod trouble;

pub use engine::{Model, ServerTime};
#[cfg(feature = "listen")]
pub use listen::Listening;
pub use server::EmbeddedServer;
pub use stepped::SteppedRuntime;
pub use transport::EmbeddedTransport;
pub use trouble::{LostReply, calls};
