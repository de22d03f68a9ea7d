#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod fence;
mod gate;
mod scripts;
pub mod sql;

pub use fence::{Fence, Fenced};
pub use gate::FenceGate;
pub use scripts::FencedScript;
