//! The imports of most of these tests.

pub(super) use std::{collections::BTreeMap, convert::Infallible, fmt::Display, time::Duration};

pub(super) use fastrand::Rng;
pub(super) use redlatch::runtime::Command;
pub(super) use redlatch_embedded::engine::{Condition, Model, ServerTime};
pub(super) use redlatch_lua::Source;

pub(super) use super::{
    bed::{Bed, Call, key, optional, part, text},
    calls::{Ask, Of, RETENTION, list},
    changes::Answer,
    costs::{at_most, costs, exhaust},
    driver::{Attempt, Event, Kind, Request, World, assert_noticed, worlds},
    exact::{Exact, FOREVER, KEEP, KEY, texts, world},
    queue::{Queue, client, client_of},
};
