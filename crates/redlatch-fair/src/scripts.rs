//! The scripts that only the fair lock has. No other file knows the order of their keys and
//! arguments.

use std::time::Duration;

use redlatch_core::{
    Error,
    family::{Discipline, Items, Key, Kind, ScriptCall},
};
use redlatch_lua::FAIR;

use crate::Waiter;

/// Every waiter has a place of its own in a queue on the server. The part `q` of a lock's key lists
/// its waiters in order, and `l` until when their clients count as alive.
pub(crate) static FAIR_LOCK: Kind = Kind {
    label: "fair_lock",
    stored: "fair:1",
    discipline: Discipline::Queued,
    parts: &["q", "l"],
    scripts: &FAIR.exclusive,
};

/// Calls `fair/waiters.lua`.
pub(crate) fn waiters(key: &Key, after: Option<u64>, count: usize) -> ScriptCall {
    let call = FAIR_LOCK.call(&FAIR.waiters, key);
    call.maybe(after).arg(count)
}

/// Reads the waiters, each beside its ticket, without their positions and descriptions.
pub(crate) fn listed(items: &Items<'_>) -> Result<Vec<(u64, Waiter)>, Error> {
    let now: u64 = items.number(0)?;
    if items.text(1)? != "waiters" {
        return items.other(FAIR_LOCK.stored);
    }
    let waiter = |at| {
        let ticket: u64 = items.number(at + 1)?;
        let waiter = Waiter {
            owner: owner_of(items.text(at)?).ok_or_else(|| items.bad())?,
            position: 0,
            waiting: Duration::from_millis(now.saturating_sub(ticket / 1000)),
            alive_for: items.span(at + 2)?,
            metadata: None,
        };
        Ok((ticket, waiter))
    };
    (2..items.len()).step_by(3).map(waiter).collect()
}

/// Calls `fair/position.lua` for the waiter with this address.
pub(crate) fn position(key: &Key, address: &str) -> ScriptCall {
    FAIR_LOCK.call(&FAIR.position, key).arg(address)
}

pub(crate) fn positioned(items: &Items<'_>) -> Result<Option<u64>, Error> {
    match items.text(1)? {
        "at" => items.number(2).map(Some),
        "none" => Ok(None),
        _ => items.other(FAIR_LOCK.stored),
    }
}

/// Reads the owner from a member of the queue, `<verb> <prefix>:w:<client>[{<tag>}] <attempt>
/// <owner>`.
fn owner_of(member: &str) -> Option<String> {
    let mut words = member.split(' ');
    let channel = words.nth(1)?.split('{').next()?;
    let (_, client) = channel.rsplit_once(':')?;
    let number = words.nth(1)?;
    Some(format!("{client}:{number}"))
}

#[cfg(test)]
mod tests {
    use redlatch_core::runtime::Value;

    use super::*;

    mod replies {
        include!("../../redlatch-core/src/runtime/tests/replies.rs");
    }

    #[test]
    fn address_contains_the_owner() {
        assert_eq!(
            owner_of("PUBLISH re:d:w:0a1b 17 4"),
            Some("0a1b:4".to_owned())
        );
        assert_eq!(
            owner_of("SPUBLISH re:d:w:0a1b{71} 17 4"),
            Some("0a1b:4".to_owned())
        );
        assert_eq!(owner_of("PUBLISH re:d:w:0a1b 17"), None);
    }

    #[test]
    fn any_reply_is_decoded_or_refused() {
        replies::reads_anything(&FAIR.waiters, &["waiters", "kind"], listed);
        replies::reads_anything(&FAIR.position, &["at", "none", "kind"], positioned);
    }
}
