//! The scripts that only the fair lock has. No other file knows the order of their keys and
//! arguments.

use std::time::Duration;

use redlatch_core::{
    Error,
    family::{Discipline, Items, Key, Kind, ScriptCall},
};
use redlatch_lua::FAIR;

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

/// One waiter as the server lists it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) owner: String,
    pub(crate) ticket: u64,
    /// For how long it counts as alive.
    pub(crate) alive: Duration,
    /// For how long it has waited.
    pub(crate) age: Duration,
}

pub(crate) fn listed(items: &Items<'_>) -> Result<Vec<Listed>, Error> {
    let now: u64 = items.number(0)?;
    if items.text(1)? != "waiters" {
        return items.other(FAIR_LOCK.stored);
    }
    let waiter = |at| {
        let ticket: u64 = items.number(at + 1)?;
        Ok(Listed {
            owner: owner_of(items.text(at)?).ok_or_else(|| items.bad())?,
            ticket,
            alive: items.span(at + 2)?,
            age: Duration::from_millis(now.saturating_sub(ticket / 1000)),
        })
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
        include!("../../redlatch-core/src/runtime/replies.rs");
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
