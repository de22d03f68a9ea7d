#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod body;
mod fields;
mod layer;
mod path;
mod rate;
mod refusal;
mod service;

pub use body::HeldBody;
pub use layer::{Decided, LimitLayer, LockLayer, Undecided, Until};
pub use path::path_parameters;
pub use rate::{RateLimitLayer, RateLimited};
pub use refusal::{Refusal, Unavailable};
pub use service::{Held, ResponseFuture};
