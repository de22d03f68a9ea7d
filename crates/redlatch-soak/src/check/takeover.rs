//! Events that two servers explain that were each consistent, and that one server does not explain.
//!
//! When one server takes over from another without its consent, each of them may grant names
//! without knowing of the other's grants. Too many grants in total are then expected if each server
//! by itself granted no more than the limit. The old server grants until it is dead or knows that
//! it is a replica. The new one grants from the time at which it can have been active.
//!
//! A falling token is expected if one server can have given the one and the other server the other.
//! The greater token must have been given at most 2 s before the fault, because a replica does not
//! lag more. Two servers also explain a guarded set that loses an element or refuses a valid
//! holder, and a latch that was set on one server and passed on the other.
//!
//! Holds that all replicas had to confirm are never excused, and neither is a lower token that a
//! set accepts. A fault of the library between a grant of the old server and one of the new server
//! stays unseen if the replica knew of the first grant.

use std::collections::BTreeSet;

use crate::record::{Fault, Hold, Takeover};

/// The period from the sending of a request to the end of its acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) asked: u64,
    pub(super) from: u64,
    /// Whether further requests followed the granted one. The end of the period then does not bound
    /// the time of the grant.
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
    /// Tells whether grants of more than `limit` in total may be those of two servers.
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
        // The totals that the old server may have granted, for every assignment of the grants that
        // either server may have made.
        let mut olds = BTreeSet::from([old]);
        for units in either {
            let more: Vec<_> = olds.iter().map(|old| old + units).collect();
            olds.extend(more);
        }
        olds.iter().any(|&old| old <= limit && all - old <= limit)
    }

    /// Tells whether one of the grants may come from one server and the other from the other.
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
    /// Tells whether a replica may have missed data that its master acknowledged at that time.
    pub(super) const fn may_have_lost(&self, at: u64) -> bool {
        at + BEHIND >= self.from
    }
}

/// The longest time that a reply is on the way: through proxies that delay it by 1.5 s, to a client
/// on a busy machine.
const DELIVERY: u64 = 3_000_000;

/// The greatest lag of a replica that was in step right before a fault.
const BEHIND: u64 = 2_000_000;
