//! The commands, grouped by the type of data.

use std::collections::BTreeMap;

pub(super) mod hashes;
pub(super) mod keys;
pub(super) mod pubsub;
pub(super) mod scripts;
pub(super) mod server;
pub(super) mod strings;
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
