//! Conditions of a server under which it refuses commands.

use std::collections::BTreeSet;

/// A condition under which a server refuses some or all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Condition {
    /// The memory is used up. Commands that may need memory are refused with `OOM`. In a script
    /// they are refused only until the first write that was admitted.
    Full,
    /// Fewer replicas are connected than configured. Every write is refused with `NOREPLICAS`.
    ShortOfReplicas,
    /// The server is a replica. Every write is refused with `READONLY`.
    ReadOnly,
    /// The server is loading its data. Nearly all commands are refused with `LOADING`.
    Loading,
    /// A script of another client exceeds its time limit. Nearly all commands are refused with
    /// `BUSY`.
    Busy,
    /// The user has no right to any channel. Messages of scripts are refused with `NOPERM`.
    NoChannels,
}

/// The conditions that are set now.
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
