#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod election;
mod observe;
mod scripts;
mod task;
mod term;

pub use election::{Election, FallibleElection, OnError};
pub use observe::{Leader, Observe};
pub use task::TermTask;
pub use term::{ScopedTerm, Term};
