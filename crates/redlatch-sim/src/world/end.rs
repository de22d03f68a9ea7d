//! What may be left at the end.

use super::World;
use crate::{
    exec::lock,
    names::{label, name_of},
};

impl World {
    /// P6 and P10: all have done their work and settled, so nothing of theirs is left; of the dead, nothing beyond a lease.
    pub(super) fn check_end(&self) {
        let shared = &self.shared;
        if shared.faults.expects_trouble() {
            return;
        }
        let over = lock(&shared.over);
        let state = shared.net.state();
        let now = state.server.time(shared.exec.now());
        for key in state.server.engine().dump(now) {
            let text = String::from_utf8_lossy(&key.key).into_owned();
            let Some(name) = name_of(&text) else { continue };
            if key.expires.is_none() {
                shared.watch.violate("P6", format!("{text} has no end"));
            }
            let finished = |who: &String| over.iter().any(|id| who.contains(id.as_str()));
            for holder in shared.kind.holders(&key, now.millis()) {
                if finished(&holder) {
                    let name = label(name);
                    let what = format!("{holder} still has {name} after all has been released");
                    shared.watch.violate("P6", what);
                }
            }
            for waiter in shared.kind.waiters(&key) {
                if finished(&waiter) {
                    let what = format!("{waiter} still waits for {}", label(name));
                    shared.watch.violate("P6", what);
                }
            }
        }
    }
}
