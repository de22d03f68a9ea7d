//! The imports of the calls of each folder of scripts.

pub(crate) use fastrand::Rng;
pub(crate) use redlatch_lua::Source;

pub(crate) use crate::{
    family::{LONG, Parts, RETENTION, Time, attempt, by, pick, token},
    pair::Pair,
};
