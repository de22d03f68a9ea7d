//! What two servers explain that were of one mind each, and one server does not.
//!
//! While one takes over from another without its consent, each of both may grant what the other
//! does not know of. So what was granted is expected to be too much together if each of both, for
//! itself, granted no more than there is: the one before it was dead or knew that it was a replica,
//! the other not before it can have been in charge.

use std::collections::BTreeSet;

use crate::record::{Fault, Hold, Takeover};

/// From the sending of a request to the end of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) asked: u64,
    pub(super) from: u64,
    /// Whether other requests came after the one that was granted, so that its end says nothing
    /// about its moment.
    pub(super) of_many: bool,
    pub(super) units: u32,
}

impl Grant {
    pub(super) fn of(hold: &Hold) -> Self {
        Self {
            asked: hold.asked,
            from: hold.from,
            of_many: hold.kind == "multi",
            units: hold.units,
        }
    }
}

impl Takeover {
    /// Says whether grants of more than `limit` together may be those of two servers.
    pub(super) fn explains(self, grants: &[Grant], limit: u32) -> bool {
        let (mut old, mut new) = (0, 0);
        let mut either = Vec::new();
        for grant in grants {
            match (self.old_may_have(grant), self.new_may_have(grant)) {
                (true, false) => old += grant.units,
                (false, true) => new += grant.units,
                (true, true) => either.push(grant.units),
                (false, false) => return false,
            }
        }
        let all = old + new + either.iter().sum::<u32>();
        // What the old one may have granted, for every way to divide what either may have.
        let mut olds = BTreeSet::from([old]);
        for units in either {
            let more: Vec<_> = olds.iter().map(|old| old + units).collect();
            olds.extend(more);
        }
        olds.iter().any(|&old| old <= limit && all - old <= limit)
    }

    /// Says whether one of both may have been granted by one server and the other by the other.
    pub(super) fn divides(self, a: &Grant, b: &Grant) -> bool {
        let divided = |a: &Grant, b: &Grant| self.old_may_have(a) && self.new_may_have(b);
        divided(a, b) || divided(b, a)
    }

    fn old_may_have(self, grant: &Grant) -> bool {
        let answered_by =
            |end| grant.asked < end && (grant.of_many || grant.from <= end + DELIVERY);
        if self.died == self.back {
            return answered_by(self.ended);
        }
        answered_by(self.died) || (answered_by(self.ended) && grant.from > self.back)
    }

    const fn new_may_have(self, grant: &Grant) -> bool {
        grant.from > self.began
    }
}

impl Fault {
    /// Says whether a replica may have missed what its master answered at that time.
    pub(super) const fn may_have_lost(&self, at: u64) -> bool {
        at + BEHIND >= self.from
    }
}

/// How long an answer is under way at most, through proxies that hold it up for 1.5 s, to a client
/// on a machine that has more to do.
const DELIVERY: u64 = 3_000_000;

/// How far a replica is behind at most that was in step right before a fault.
const BEHIND: u64 = 2_000_000;
