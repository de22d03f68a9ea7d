//! The election.

mod cancel;
mod forbidden;
mod late;
