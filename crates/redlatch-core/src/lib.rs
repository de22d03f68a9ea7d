#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

mod api;
mod base;
mod engine;
#[doc(hidden)]
pub mod family;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
#[path = "tests/fuzzing.rs"]
pub mod fuzzing;
mod net;
mod protocol;
pub mod runtime;
#[doc(hidden)]
pub mod transport;

/// A recorder of holds, for `redlatch timeline`. Needs the feature `record`.
#[cfg(feature = "record")]
pub mod record {
    pub use crate::base::observe::record::Recorder;
}

pub use api::{
    builder::{Acquire, TryAcquire, TryAcquireFor},
    client::Tables,
    config::ClientBuilder,
};
pub use base::{
    credentials::Credentials,
    error::{Error, ErrorKind},
    owner::{ClientId, Owner},
    primitive::Token,
};
pub use engine::{
    AnyGuard, Bundle, Extending, Held, Lasting, Owned, Released, Renewed, client_record::Metadata,
    context::Client,
};
pub use family::{
    exclusive,
    member::{Lockable, Member},
};
pub use net::{Connection, Health};
pub use protocol::{
    backoff::{Backoff, Jitter},
    durability::Durability,
    hold::{HoldState, LossCause},
    time::Moment,
    waiter::WaitStrategy,
};

#[cfg(test)]
#[cfg(shuttle)]
#[path = "tests/threads.rs"]
mod threads;
