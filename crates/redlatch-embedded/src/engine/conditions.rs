//! States of a server in which it refuses commands.

use std::collections::BTreeSet;

/// A state in which a server refuses some or all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Condition {
    /// Memory is used up: commands that may need more are refused with `OOM`; in a script only
    /// until its first write that was let through.
    Full,
    /// Fewer replicas than configured: every write is refused with `NOREPLICAS`.
    ShortOfReplicas,
    /// The server is a replica: every write is refused with `READONLY`.
    ReadOnly,
    /// The server reads its data in: nearly everything is refused with `LOADING`.
    Loading,
    /// Another client's script runs for too long: nearly everything is refused with `BUSY`.
    Busy,
}

/// The conditions that hold now.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions(BTreeSet<Condition>);

impl Conditions {
    pub(super) fn set(&mut self, condition: Condition, on: bool) {
        if on {
            self.0.insert(condition);
        } else {
            self.0.remove(&condition);
        }
    }

    pub(super) fn has(&self, condition: Condition) -> bool {
        self.0.contains(&condition)
    }
}
