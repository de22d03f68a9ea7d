//! The users' entry points: the client, its options, and the builders of acquisitions.

pub(crate) mod address;
pub(crate) mod builder;
mod check;
pub(crate) mod client;
pub(crate) mod config;
mod connect;
pub(crate) mod describe;
