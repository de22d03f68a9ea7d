//! The scripts of the pool. No other file knows the order of their keys and arguments.

mod holds;
mod pool;

use redlatch_core::{
    Error, ErrorKind,
    family::{Items, Key, Script, ScriptCall},
};

pub use self::holds::Verdict;
pub(crate) use self::{
    holds::{AcquireScript, ReleaseScript, RenewScript, WithdrawScript},
    pool::{Change, ChangeScript, HoldsScript, InspectScript, Inspected, LookScript, Made},
};

pub(crate) fn unset() -> Error {
    let message = "nobody has set how many permits there are; call try_set_permits, or take the handle with permits_if_unset";
    Error::new(ErrorKind::NotSet, message)
}

/// Starts a call that may notify waiters.
fn queued(script: &'static Script, key: &Key) -> ScriptCall {
    ScriptCall::new(script, key)
        .key(key.as_str())
        .key(key.part("d"))
        .key(key.part("q"))
        .key(key.part("l"))
}

/// Reads a reply that no script makes itself.
fn other<R>(items: &Items<'_>, kind: &str) -> Result<R, Error> {
    if items.text(1)? != "kind" {
        return Err(items.bad());
    }
    Err(Error::wrong_kind(items.text(2)?, kind))
}

#[cfg(test)]
use redlatch_core::runtime::Value;

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use redlatch_core::family::{Name, Prefix};

    use super::{replies::decodes_anything, *};

    const KIND: &str = "sem:1";

    fn key() -> Key {
        Key::new(&Prefix::default(), &Name::parse("n").unwrap())
    }

    #[test]
    fn any_reply_about_a_hold_is_decoded_or_refused() {
        let (key, kind) = (&key(), KIND);
        let acquire = AcquireScript {
            key,
            kind,
            need: 2,
            size: None,
            each: false,
        };
        decodes_anything(
            &[
                "granted", "busy", "more", "late", "void", "unset", "large", "kind",
            ],
            |reply| acquire.decode(reply),
        );
        decodes_anything(
            &["renewed", "expired", "gone", "late", "kind"],
            RenewScript::decode,
        );
        decodes_anything(
            &["released", "already", "expired", "gone", "kind"],
            ReleaseScript::decode,
        );
        decodes_anything(&["found", "struck", "kind"], WithdrawScript::decode);
    }

    #[test]
    fn any_reply_about_the_pool_is_decoded_or_refused() {
        let (key, kind, size) = (&key(), KIND, None);
        let change = ChangeScript {
            key,
            kind,
            change: Change::Drain,
            ttl: None,
        };
        decodes_anything(
            &[
                "done", "set", "unset", "below", "above", "more", "late", "kind",
            ],
            |reply| change.decode(reply),
        );
        let inspect = InspectScript { key, kind, size };
        decodes_anything(&["set", "unset", "more", "kind"], |reply| {
            inspect.decode(reply)
        });
        let holds = HoldsScript {
            key,
            kind,
            from: 0,
            count: 9,
        };
        decodes_anything(&["0", "kind"], |reply| holds.decode(reply));
        decodes_anything(&["5", "kind"], |reply| {
            LookScript { key, kind }.decode(reply)
        });
    }
}
