//! The scripts that look at a lock and end its holds by force.

use std::time::Duration;

use redlatch_core::{
    Client, Error, Token,
    family::{Force, Internals, Items, Key, ScriptCall, millis},
    runtime::Value,
};
use redlatch_lua::RWLOCK;

use super::{STORED, call, letter};
use crate::{Access, ReadWriteHolder, ReadWriteInfo};

/// The state that `rwlock/inspect.lua` found.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) info: ReadWriteInfo,
    /// The write hold, if there is one.
    pub(crate) write: Option<ReadWriteHolder>,
    pub(crate) own_writes: u32,
    pub(crate) own_reads: u32,
}

/// Calls `rwlock/inspect.lua`.
pub(crate) fn inspect(key: &Key, owner: &str) -> ScriptCall {
    call(&RWLOCK.inspect, key).arg(owner)
}

pub(crate) fn inspected(name: &str, reply: &Value) -> Result<Inspected, Error> {
    let items = Items::new(&RWLOCK.inspect, reply)?;
    if items.text(1)? != "state" {
        return items.other(STORED);
    }
    let some = |at| {
        let text = items.text(at)?.to_owned();
        Ok::<_, Error>(Some(text).filter(|text| !text.is_empty()))
    };
    let token = items.maybe(2)?.map(Token::from_u64);
    let writer = some(3)?;
    let (now, count, remaining) = (items.number(0)?, items.number(4)?, items.span(5)?);
    let held = writer.clone().zip(token);
    let write = held.map(|(owner, token)| ReadWriteHolder {
        access: Access::Write,
        owner,
        count,
        token,
        age: age(now, token.as_u64()),
        remaining,
        metadata: None,
        note: None,
        forbidden: false,
        serial: token.as_u64(),
    });
    Ok(Inspected {
        info: ReadWriteInfo {
            name: name.to_owned(),
            token,
            writer,
            readers: items.number(6)?,
            upgradable: some(7)?,
            waiting_writers: items.number(8)?,
            waiting_readers: items.number(9)?,
        },
        write,
        own_writes: items.number(10)?,
        own_reads: items.number(11)?,
    })
}

/// Where `rwlock/holders.lua` goes on, and the read holds that it found.
pub(crate) type Page = (Option<String>, Vec<ReadWriteHolder>);

/// Calls `rwlock/holders.lua`.
pub(crate) fn holders(key: &Key, cursor: &str) -> ScriptCall {
    ScriptCall::new(&RWLOCK.holders, key).arg(cursor)
}

pub(crate) fn page(reply: &Value) -> Result<Page, Error> {
    let items = Items::new(&RWLOCK.holders, reply)?;
    if items.text(1)? != "holds" {
        return items.other(STORED);
    }
    let now = items.number(0)?;
    let reader = |at| {
        let (serial, access) = (items.number(at + 2)?, items.text(at + 5)?);
        Ok(ReadWriteHolder {
            access: match access {
                "u" | "U" => Access::UpgradableRead,
                _ => Access::Read,
            },
            owner: items.text(at)?.to_owned(),
            count: items.number(at + 1)?,
            token: Token::from_u64(items.number(at + 3)?),
            age: age(now, serial),
            remaining: items.span(at + 4)?,
            metadata: None,
            note: None,
            forbidden: matches!(access, "R" | "U"),
            serial,
        })
    };
    let readers: Result<_, Error> = (3..items.len()).step_by(6).map(reader).collect();
    let cursor = items.text(2)?;
    Ok(((cursor != "0").then(|| cursor.to_owned()), readers?))
}

fn age(now: u64, since_micros: u64) -> Duration {
    Duration::from_millis(now.saturating_sub(since_micros / 1000))
}

/// Calls `rwlock/force.lua` for this hold.
pub(crate) fn force(key: &Key, hold: &ReadWriteHolder, how: Force, client: &Client) -> ScriptCall {
    call(&RWLOCK.force, key)
        .can_do_with(1)
        .arg(letter(hold.access.side()))
        .arg(&hold.owner)
        .arg(hold.serial)
        .arg(how.word())
        .arg(millis(client.retention()))
        .arg(client.wake_channels())
}

/// Returns true if the hold existed, for this call or for an earlier copy of it.
pub(crate) fn forced(reply: &Value) -> Result<bool, Error> {
    let items = Items::new(&RWLOCK.force, reply)?;
    match items.text(1)? {
        "done" | "already" => Ok(true),
        "gone" => Ok(false),
        _ => items.other(STORED),
    }
}
