//! Tests that need several servers which belong together: clusters, sentinels, replicas. Each runs
//! with every server of `REDLATCH_TEST_SERVERS`, or of the `PATH`.

// Tests say what they expect, and real servers need real clocks and tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]
#![cfg(unix)]

mod access;
mod clocks_apart;
mod cluster_faults;
mod durability;
mod durable_moves;
mod every_kind;
mod migration;
mod panics;
mod partition;
mod prelude;
mod proxied;
mod replicas;
mod routing;
mod sentinel_faults;
mod shards;
mod split_bus;
mod support;
