//! What a worker wants and what it knows of its hold, for the history.

use std::slice;

use redlatch_tests::hold;

use crate::clock::now;

/// The description of a hold in the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: &'static str,
    pub(crate) units: u32,
    pub(crate) limit: u32,
    pub(crate) durable: bool,
    /// Whether a release notifies a waiter.
    pub(crate) notifies: bool,
}

impl Entry {
    /// Describes a hold that takes one of one.
    pub(crate) const fn exclusive(kind: &'static str) -> Self {
        Self::units(kind, 1, 1)
    }

    /// Describes a hold that takes `units` of `limit`.
    pub(crate) const fn units(kind: &'static str, units: u32, limit: u32) -> Self {
        Self {
            kind,
            units,
            limit,
            durable: false,
            notifies: true,
        }
    }
}

/// The target of an acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) kind: &'static str,
    pub(crate) names: &'a [String],
    /// Whether it must end, whatever other clients hold.
    pub(crate) bounded: bool,
}

impl<'a> Wanted<'a> {
    /// Describes an acquisition without a time limit.
    pub(crate) const fn of(kind: &'static str, name: &'a String) -> Self {
        Self::all(kind, slice::from_ref(name))
    }

    /// Describes an acquisition of several names.
    pub(crate) const fn all(kind: &'static str, names: &'a [String]) -> Self {
        Self {
            kind,
            names,
            bounded: false,
        }
    }

    /// Describes an acquisition with a time limit, or without waiting.
    pub(crate) const fn bounded(self) -> Self {
        Self {
            bounded: true,
            ..self
        }
    }
}

/// An acquisition, its owner, which is that of the first guard of the hold, and the times at which
/// it began and returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) id: u64,
    pub(crate) owner: u64,
    pub(crate) at: u64,
    pub(crate) granted: u64,
}

/// The time at which a hold was last believed in, and its deadline at that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belief {
    pub(crate) until: u64,
    pub(crate) deadline: u64,
}

impl Belief {
    /// Starts with the time at which the hold was granted.
    pub(crate) const fn since(granted: u64) -> Self {
        Self {
            until: granted,
            deadline: granted,
        }
    }

    /// Looks whether the hold is believed in.
    pub(crate) fn look(&mut self, guard: &dyn hold::Hold) -> bool {
        let before = now();
        let believed = guard.believed();
        if believed {
            let left = guard.left().unwrap_or_default();
            self.until = before;
            self.deadline = before + u64::try_from(left.as_micros()).unwrap_or(0);
        }
        believed
    }
}
