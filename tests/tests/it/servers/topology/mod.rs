//! Several servers: clusters, sentinels, replicas, and what fails in them.

mod access;
mod churn;
mod clocks_apart;
mod cluster_faults;
mod durability;
mod durable_moves;
mod kinds;
mod migration;
mod partition;
mod proxied;
mod replicas;
mod routing;
mod sentinel_faults;
mod shards;
mod split_bus;
pub(super) mod support;
