#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod fence;
mod fenced;
mod gate;
mod script;
mod scripts;
pub mod sql;

pub use fence::Fence;
pub use fenced::Fenced;
pub use gate::FenceGate;
pub use script::FencedScript;
