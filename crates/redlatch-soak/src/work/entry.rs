//! What a worker wants and what it knows of its hold, for the history.

use std::{slice, time::Duration};

use redlatch_tests::hold;

use crate::{clock::now, record::Hold};

/// The target of an acquisition, and what is known of the hold before it is granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) kind: &'static str,
    pub(crate) names: &'a [String],
    pub(crate) units: u32,
    pub(crate) limit: u32,
    pub(crate) durable: bool,
    /// Whether the acquisition must end, whatever other clients hold.
    pub(crate) bounded: bool,
}

impl<'a> Wanted<'a> {
    /// Describes an acquisition of one of one, without a time limit.
    pub(crate) const fn of(kind: &'static str, name: &'a String) -> Self {
        Self::all(kind, slice::from_ref(name))
    }

    /// Describes an acquisition of several names.
    pub(crate) const fn all(kind: &'static str, names: &'a [String]) -> Self {
        Self {
            kind,
            names,
            units: 1,
            limit: 1,
            durable: false,
            bounded: false,
        }
    }

    /// Takes `units` of `limit`.
    pub(crate) const fn units(self, units: u32, limit: u32) -> Self {
        Self {
            units,
            limit,
            ..self
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

impl Hold {
    /// Returns a hold of one of one that is granted now.
    pub(crate) fn granted(kind: &str, name: &str, asked: u64) -> Self {
        let from = now();
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            units: 1,
            limit: 1,
            asked,
            from,
            until: from,
            deadline: from,
            ..Self::default()
        }
    }

    /// Looks whether the hold is believed in.
    pub(crate) fn look(&mut self, guard: &dyn hold::Hold) -> bool {
        let (before, believed) = (now(), guard.believed());
        self.looked(before, believed, guard.left().unwrap_or_default())
    }

    /// Records whether the hold was believed in right after `before`, and with how much time left.
    pub(crate) fn looked(&mut self, before: u64, believed: bool, left: Duration) -> bool {
        if believed {
            self.until = before;
            self.deadline = before + u64::try_from(left.as_micros()).unwrap_or(0);
        } else if self.lost == 0 {
            self.lost = now();
        }
        believed
    }
}
