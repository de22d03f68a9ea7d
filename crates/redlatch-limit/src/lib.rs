#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod ask;
mod limiter;
mod lines;
mod pass;
mod rate;
mod scripts;

pub use limiter::RateLimiter;
pub use pass::{Admission, Level, LimitInfo, Pass, Refused};
