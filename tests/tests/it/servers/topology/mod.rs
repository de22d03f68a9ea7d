//! Several servers: clusters, sentinels, replicas, and what fails in them.

mod cluster_faults;
mod durability;
mod kinds;
mod migration;
mod replicas;
mod routing;
mod sentinel_faults;
mod support;
