//! The scripts that only the fair lock has. No other file knows the order of their keys and
//! arguments.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error,
    family::{Items, Key, Script, ScriptCall},
    runtime::Value,
};
use redlatch_lua::FAIR;

use crate::kind::FAIR_LOCK;

static WAITERS: LazyLock<Script> = LazyLock::new(|| Script::new(&FAIR.waiters));
static POSITION: LazyLock<Script> = LazyLock::new(|| Script::new(&FAIR.position));

/// `fair/waiters.lua`.
pub(crate) struct WaitersScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) after: Option<u64>,
    pub(crate) count: usize,
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

impl WaitersScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        FAIR_LOCK
            .call(&WAITERS, self.key)
            .arg(
                self.after
                    .map(|after| after.to_string())
                    .unwrap_or_default(),
            )
            .arg(self.count.to_string())
    }

    pub(crate) fn decode(reply: &Value) -> Result<Vec<Listed>, Error> {
        let items = Items::new(&WAITERS, reply)?;
        let now: u64 = items.number(0)?;
        match items.text(1)? {
            "waiters" => {}
            "kind" => return Err(FAIR_LOCK.wrong(items.text(2)?)),
            _ => return Err(items.bad()),
        }
        let mut found = Vec::with_capacity(items.len() / 3);
        for at in (2..items.len()).step_by(3) {
            let ticket: u64 = items.number(at + 1)?;
            found.push(Listed {
                owner: owner_of(items.text(at)?).ok_or_else(|| items.bad())?,
                ticket,
                alive: Duration::from_millis(items.number(at + 2)?),
                age: Duration::from_millis(now.saturating_sub(ticket / 1000)),
            });
        }
        Ok(found)
    }
}

/// `fair/position.lua`.
pub(crate) struct PositionScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) address: &'a str,
}

impl PositionScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        FAIR_LOCK.call(&POSITION, self.key).arg(self.address)
    }

    pub(crate) fn decode(reply: &Value) -> Result<Option<u64>, Error> {
        let items = Items::new(&POSITION, reply)?;
        match items.text(1)? {
            "at" => items.number(2).map(Some),
            "none" => Ok(None),
            "kind" => Err(FAIR_LOCK.wrong(items.text(2)?)),
            _ => Err(items.bad()),
        }
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
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use super::{replies::decodes_anything, *};

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
        decodes_anything(&["waiters", "kind"], WaitersScript::decode);
        decodes_anything(&["at", "none", "kind"], PositionScript::decode);
    }
}
