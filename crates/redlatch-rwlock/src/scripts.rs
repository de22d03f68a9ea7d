//! The scripts of the read-write lock. No other file knows the order of their keys and arguments.

mod holds;
mod lock;

use redlatch_core::{
    Error,
    family::{Key, Script, ScriptCall, Side},
};

pub(crate) use self::{
    holds::{AcquireScript, DowngradeScript, ReleaseScript, RenewScript, WithdrawScript},
    lock::{ForceScript, Inspected, holders, inspect, inspected, page},
};

/// The key of one lock, which every call has, mostly with its parts.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) key: Key,
}

impl Names {
    fn call(&self, script: &'static Script) -> ScriptCall {
        let call = ScriptCall::new(script, &self.key).key(self.key.as_str());
        PARTS
            .iter()
            .fold(call, |call, part| call.key(self.key.shown_part(part)))
    }
}

const fn letter(side: Side) -> &'static str {
    match side {
        Side::Exclusive => "w",
        Side::Shared => "r",
    }
}

fn wrong_kind(found: &str) -> Error {
    Error::wrong_kind(found, "rw:1")
}

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
    use super::{replies::decodes_anything, *};
    use crate::kind::Way;

    #[test]
    fn any_reply_about_a_hold_is_decoded_or_refused() {
        for way in [Way::Read, Way::Upgradable] {
            decodes_anything(
                &[
                    "granted", "busy", "more", "late", "void", "reader", "lost", "kind",
                ],
                |reply| AcquireScript::decode(&way, reply),
            );
        }
        for way in [Way::Write, Way::Upgrade(3)] {
            decodes_anything(
                &[
                    "granted", "busy", "more", "late", "void", "reader", "lost", "kind",
                ],
                |reply| AcquireScript::decode(&way, reply),
            );
        }
        decodes_anything(
            &["renewed", "late", "expired", "taken", "revoked", "gone"],
            RenewScript::decode,
        );
        decodes_anything(
            &["released", "expired", "already", "revoked", "taken", "gone"],
            ReleaseScript::decode,
        );
        decodes_anything(&["found", "struck", "kind"], WithdrawScript::decode);
    }

    #[test]
    fn any_reply_about_the_lock_is_decoded_or_refused() {
        decodes_anything(&["state", "kind"], inspected);
        decodes_anything(&["holds", "kind"], page);
        decodes_anything(&["done", "already", "gone", "kind"], ForceScript::decode);
    }
}
