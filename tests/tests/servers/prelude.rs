//! The imports of most of these tests.

pub(crate) use redlatch_behaviours::prelude::*;
pub(crate) use redlatch_core::family::slot_of;
pub(crate) use redlatch_tests::{
    fixture::call,
    proxy::{Pick, Then},
    server::{ClientType, Cluster, ClusterOptions, Replicated, SentinelGroup},
};

pub(crate) use crate::support::{
    await_copy, contended, first_waiter, group, hand_over, has_shards, name_on, names_on, other,
    other_master, pair, registered, take_and_free, three, three_and_three, with_one_replica,
};
