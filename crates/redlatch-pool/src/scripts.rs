//! The scripts of the pool. No other file knows the order of their keys and arguments.

mod holds;
mod pool;

use redlatch_core::{
    Error, ErrorKind,
    family::{Key, Script, ScriptCall},
};

pub(crate) use self::{
    holds::{ReleaseScript, renew, renewed},
    pool::{
        Change, Inspected, Made, change, changed, holds, inspect, inspected, listed, look, looked,
    },
};

pub(crate) fn unset() -> Error {
    let message = "nobody has set how many permits there are; call try_set_permits, or take the handle with permits_if_unset";
    Error::new(ErrorKind::NotSet, message)
}

/// Starts a call that may notify waiters.
fn queued(script: &'static Script, key: &Key) -> ScriptCall {
    ScriptCall::new(script, key)
        .key(key.part("d"))
        .key(key.part("q"))
        .key(key.part("l"))
}

#[cfg(test)]
use redlatch_core::runtime::Value;

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use redlatch_core::family::{Name, Prefix, Primitive};

    use super::{replies::decodes_anything, *};
    use crate::{Flavour, counted::Counted};

    const KIND: &str = "sem:1";

    #[test]
    fn any_reply_about_a_hold_is_decoded_or_refused() {
        let hold = Counted {
            flavour: Flavour {
                kind: "semaphore",
                stored: KIND,
                each: false,
            },
            key: Key::new(&Prefix::default(), &Name::parse("n").unwrap()),
            class: "".into(),
            need: 2,
            size: None,
        };
        decodes_anything(
            &[
                "granted", "busy", "more", "late", "void", "unset", "large", "kind",
            ],
            |reply| hold.acquired(reply),
        );
        decodes_anything(&["renewed", "expired", "gone", "late", "kind"], renewed);
        decodes_anything(
            &["released", "already", "expired", "gone", "kind"],
            ReleaseScript::decode,
        );
        decodes_anything(&["found", "struck", "kind"], |reply| hold.withdrawn(reply));
    }

    #[test]
    fn any_reply_about_the_pool_is_decoded_or_refused() {
        decodes_anything(
            &[
                "done", "set", "unset", "below", "above", "more", "late", "kind",
            ],
            |reply| changed(KIND, reply),
        );
        decodes_anything(&["set", "unset", "more", "kind"], |reply| {
            inspected(KIND, reply)
        });
        decodes_anything(&["0", "kind"], |reply| listed(KIND, reply));
        decodes_anything(&["5", "kind"], |reply| looked(KIND, reply));
    }
}
