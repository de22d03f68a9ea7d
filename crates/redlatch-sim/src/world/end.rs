//! What may be left at the end.

use redlatch_embedded::engine::{Contents, KeyDump};

use super::World;
use crate::{
    exec::lock,
    scripts::{label, name_of},
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
            if let Some(holder) = holder_of(&key, now.millis()) {
                let alive = over.iter().any(|id| holder.starts_with(id.as_str()));
                if alive {
                    shared.watch.violate(
                        "P6",
                        format!(
                            "{holder} still has {} after all has been released",
                            label(name)
                        ),
                    );
                }
            }
            if let Contents::SortedSet(waiters) = &key.contents {
                for (waiter, _) in waiters {
                    let waiter = String::from_utf8_lossy(waiter);
                    if over.iter().any(|id| waiter.contains(id.as_str())) {
                        shared
                            .watch
                            .violate("P6", format!("{waiter} still waits for {}", label(name)));
                    }
                }
            }
        }
    }
}

/// Reads the live holder out of a lock's key.
pub(super) fn holder_of(key: &KeyDump, now: u64) -> Option<String> {
    let Contents::Hash(fields) = &key.contents else {
        return None;
    };
    let field = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let until: u64 = field("u")?.parse().ok()?;
    (until > now).then(|| field("o")).flatten()
}
