//! Checks rules of the project that are visible in its files. Each module checks one kind of rule.

#![allow(
    clippy::unwrap_used,
    reason = "a file that cannot be read fails the test"
)]

mod circles;
mod documents;
mod facade;
mod failure_modes;
mod structure;
mod tree;
mod voice;
mod width;
