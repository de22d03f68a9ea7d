//! The commands, grouped by the type of data.

use std::collections::BTreeMap;

use super::core::Core;

pub(super) mod connection;
pub(super) mod hashes;
pub(super) mod keys;
pub(super) mod pubsub;
pub(super) mod scan;
pub(super) mod scripts;
pub(super) mod server;
pub(super) mod strings;
mod zrange;
pub(super) mod zsets;

/// Returns the parameters that `CONFIG` knows, with their defaults.
pub(super) fn default_config() -> BTreeMap<&'static str, String> {
    let pairs = [
        ("appendfsync", "everysec"),
        ("appendonly", "no"),
        ("databases", "1"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("min-replicas-max-lag", "10"),
        ("min-replicas-to-write", "0"),
        ("save", ""),
        ("timeout", "0"),
    ];
    pairs.map(|(name, value)| (name, value.to_owned())).into()
}

/// Tells whether the data exceed `maxmemory`.
pub(super) fn is_over_maxmemory(core: &Core) -> bool {
    match server::maxmemory(core) {
        0 => false,
        limit => server::used_memory(core) > limit,
    }
}
