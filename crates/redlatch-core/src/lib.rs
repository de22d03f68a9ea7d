#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod address;
mod builder;
mod check;
mod client;
mod client_record;
mod config;
mod engine;
mod error;
pub mod exclusive;
#[doc(hidden)]
pub mod family;
mod life;
mod member;
mod net;
mod observe;
mod owner;
#[doc(hidden)]
pub mod primitive;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod rules;
mod scan;
#[doc(hidden)]
pub mod script;
pub mod seam;
mod sync;
mod timeouts;
pub mod transport;
mod watched;

pub use builder::{Acquire, TryAcquire, TryAcquireFor};
pub use client::{Client, Tables};
pub use client_record::Metadata;
pub use config::ClientBuilder;
pub use engine::{Held, Released};
pub use error::{Error, ErrorKind};
pub use member::{Lockable, Member};
pub use owner::{ClientId, Owner};
pub use primitive::Token;
pub use protocol::{
    backoff::{Backoff, Jitter},
    durability::Durability,
    hold::{HoldState, LossCause},
    name::Prefix,
    time::Moment,
    waiter::WaitStrategy,
};
