//! The election.

mod cancel;
mod ending;
mod forbidden;
mod late;
