#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod address;
mod builder;
mod check;
mod client;
mod config;
mod engine;
mod error;
pub mod exclusive;
mod life;
mod member;
mod net;
mod observe;
mod owner;
mod presence;
#[doc(hidden)]
pub mod primitive;
pub mod protocol;
#[doc(hidden)]
pub mod rules;
mod scan;
#[doc(hidden)]
pub mod script;
pub mod seam;
mod sync;
pub mod transport;
#[doc(hidden)]
pub mod watched;

#[doc(hidden)]
pub use builder::AcquireMany;
pub use builder::{Acquire, TryAcquire, TryAcquireFor};
pub use client::{Client, Tables};
pub use config::ClientBuilder;
pub use engine::{AcquireOptions, Held, OwnerChoice, Released, Wait, WatchOptions};
#[doc(hidden)]
pub use engine::{Changed, Portion, REMEMBERED, Together};
pub use error::{Error, ErrorKind};
pub use member::{Lockable, Member};
pub use net::LinkClass;
pub use owner::{AttemptId, ClientId, Owner};
pub use presence::Metadata;
pub use primitive::Token;
pub use protocol::{
    acquisition::{Discipline, WaitStrategy},
    backoff::{Backoff, Jitter},
    durability::Durability,
    hold::{HoldState, LossCause},
    lease::Lease,
    name::{Key, Name, NameError, Prefix},
    time::Moment,
};
#[doc(hidden)]
pub use scan::Scan;
