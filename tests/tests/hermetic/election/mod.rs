//! The election.

mod cancel;
mod late;
