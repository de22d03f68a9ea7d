//! The state that may be left at the end.

use super::World;
use crate::{exec::lock, faults::Fault, names::label, workload};

impl World {
    /// Checks P6 and P10. All workers are done and settled, so nothing of theirs is left. Nothing
    /// of dead clients outlasts its time.
    pub(super) fn check_end(&self) {
        if self.shared.faults.expects_trouble() {
            return;
        }
        let over = lock(&self.shared.over);
        let finished = |who: &str| over.iter().any(|(_, id)| who.contains(id.as_str()));
        // A takeover may have lost the release, which the other master has.
        if !self.shared.faults.has(Fault::TwoMasters) {
            self.check_left(0, "after all has been released", finished);
        }
        // The longest lease is an extension by two, and the server's clock may be the slow one.
        let plan = &self.shared.plan;
        let leases = plan.lease * 2040 + plan.beyond() * 1020;
        let late = "though its time is over";
        self.check_left(leases + REGISTERED, late, |_| true);
    }

    /// Reads the holders and waiters `after` µs from now, as if nothing else happened, and reports
    /// those that are `wrong`.
    fn check_left(&self, after: u64, why: &str, wrong: impl Fn(&str) -> bool) {
        let shared = &self.shared;
        for (now, name, key) in shared.keys(after) {
            let holders = (shared.kind.holders)(&key, now).into_iter();
            let waiters = workload::waiters(&key).into_iter();
            let waiters = waiters.map(|waiter| (waiter, "waits for"));
            let left = holders.map(|holder| (holder, "has")).chain(waiters);
            for (who, what) in left.filter(|(who, _)| wrong(who)) {
                let what = format!("{who} still {what} {} {why}", label(name));
                shared.watch.violate("P6", what);
            }
        }
    }
}

/// The lifetime of a waiter's registration in µs: 5 s and the difference of clocks.
const REGISTERED: u64 = 5_200_000;
