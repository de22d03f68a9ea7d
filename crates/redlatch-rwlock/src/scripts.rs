//! The scripts of the read-write lock. No other file knows the order of their keys and arguments.

mod holds;
mod lock;

use redlatch_core::family::{Key, Script, ScriptCall, Side};

pub(crate) use self::lock::{Inspected, force, forced, holders, inspect, inspected, page};

/// Starts a call with the key of a lock and its parts.
fn call(script: &'static Script, key: &Key) -> ScriptCall {
    ScriptCall::new(script, key).keys(PARTS.map(|part| key.shown_part(part)))
}

const fn letter(side: Side) -> &'static str {
    match side {
        Side::Exclusive => "w",
        Side::Shared => "r",
    }
}

/// The kind as the server stores it.
const STORED: &str = "rw:1";

/// The parts of a lock's key: waiting writers, waiting readers, their clients, deadlines of read
/// holds.
const PARTS: [&str; 4] = ["q", "r", "l", "d"];

#[cfg(test)]
use redlatch_core::runtime::Value;

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use redlatch_core::family::{Name, Prefix, Primitive};

    use super::{replies::decodes_anything, *};
    use crate::kind::{Hold, Way};

    fn hold(way: Way) -> Hold {
        let class = "".into();
        let key = Key::new(&Prefix::default(), &Name::parse("n").unwrap());
        Hold { key, class, way }
    }

    #[test]
    fn any_reply_about_a_hold_is_decoded_or_refused() {
        for way in [Way::Read, Way::Upgradable, Way::Write, Way::Upgrade(3)] {
            let hold = hold(way);
            decodes_anything(
                &[
                    "granted", "busy", "more", "late", "void", "reader", "lost", "kind",
                ],
                |reply| hold.acquired(reply),
            );
        }
        let hold = hold(Way::Read);
        decodes_anything(
            &["renewed", "late", "expired", "taken", "revoked", "gone"],
            |reply| hold.renewed(reply),
        );
        decodes_anything(
            &["released", "expired", "already", "revoked", "taken", "gone"],
            |reply| hold.released(reply),
        );
        decodes_anything(&["found", "struck", "kind"], |reply| hold.withdrawn(reply));
    }

    #[test]
    fn any_reply_about_the_lock_is_decoded_or_refused() {
        decodes_anything(&["state", "kind"], |reply| inspected("n", reply));
        decodes_anything(&["holds", "kind"], page);
        decodes_anything(&["done", "already", "gone", "kind"], forced);
    }
}
