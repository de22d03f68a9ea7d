//! The scripts that look at a lock and end its holds by force.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Client, Error, Token,
    family::{Force, Internals, Items, Script, ScriptCall, Side, millis},
    runtime::Value,
};
use redlatch_lua::RWLOCK;

use super::{Names, letter, wrong_kind};
use crate::Access;

static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.inspect));
static HOLDERS: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.holders));
static FORCE: LazyLock<Script> = LazyLock::new(|| Script::new(&RWLOCK.force));

/// The state that `rwlock/inspect.lua` found.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) now: u64,
    pub(crate) token: Option<Token>,
    /// Owner, attempts and remaining time.
    pub(crate) writer: Option<(String, u32, Duration)>,
    pub(crate) readers: u64,
    pub(crate) upgradable: Option<String>,
    pub(crate) waiting_writers: u64,
    pub(crate) waiting_readers: u64,
    pub(crate) own_writes: u32,
    pub(crate) own_reads: u32,
}

/// `rwlock/inspect.lua`.
pub(crate) fn inspect(names: &Names, owner: &str) -> ScriptCall {
    names.call(&INSPECT).arg(owner)
}

pub(crate) fn inspected(reply: &Value) -> Result<Inspected, Error> {
    let items = Items::new(&INSPECT, reply)?;
    match items.text(1)? {
        "kind" => return Err(wrong_kind(items.text(2)?)),
        "state" => {}
        _ => return Err(items.bad()),
    }
    let some = |at| {
        items
            .text(at)
            .map(|text| (!text.is_empty()).then(|| text.to_owned()))
    };
    let left = Duration::from_millis(items.number(5)?);
    let count = items.number(4)?;
    Ok(Inspected {
        now: items.number(0)?,
        token: items.maybe(2)?.map(Token::from_u64),
        writer: some(3)?.map(|owner| (owner, count, left)),
        readers: items.number(6)?,
        upgradable: some(7)?,
        waiting_writers: items.number(8)?,
        waiting_readers: items.number(9)?,
        own_writes: items.number(10)?,
        own_reads: items.number(11)?,
    })
}

/// One read hold that `rwlock/holders.lua` found.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) owner: String,
    pub(crate) count: u32,
    pub(crate) serial: u64,
    pub(crate) token: Token,
    pub(crate) remaining: Duration,
    pub(crate) access: Access,
    /// Its renewal is forbidden.
    pub(crate) forbidden: bool,
}

/// A page of what `rwlock/holders.lua` found: the server's time in ms, where to go on, read holds.
pub(crate) type Page = (u64, Option<String>, Vec<Reader>);

/// `rwlock/holders.lua`.
pub(crate) fn holders(names: &Names, cursor: &str) -> ScriptCall {
    ScriptCall::new(&HOLDERS, &names.key)
        .key(names.key.as_str())
        .arg(cursor)
}

pub(crate) fn page(reply: &Value) -> Result<Page, Error> {
    let items = Items::new(&HOLDERS, reply)?;
    match items.text(1)? {
        "kind" => return Err(wrong_kind(items.text(2)?)),
        "holds" => {}
        _ => return Err(items.bad()),
    }
    let mut readers = Vec::new();
    for at in (3..items.len()).step_by(6) {
        readers.push(Reader {
            owner: items.text(at)?.to_owned(),
            count: items.number(at + 1)?,
            serial: items.number(at + 2)?,
            token: Token::from_u64(items.number(at + 3)?),
            remaining: Duration::from_millis(items.number(at + 4)?),
            access: match items.text(at + 5)? {
                "u" | "U" => Access::UpgradableRead,
                _ => Access::Read,
            },
            forbidden: matches!(items.text(at + 5)?, "R" | "U"),
        });
    }
    let cursor = items.text(2)?;
    let next = (cursor != "0").then(|| cursor.to_owned());
    Ok((items.number(0)?, next, readers))
}

/// `rwlock/force.lua`.
pub(crate) struct ForceScript<'a> {
    pub(crate) names: &'a Names,
    pub(crate) side: Side,
    pub(crate) owner: &'a str,
    pub(crate) serial: u64,
    pub(crate) how: Force,
    pub(crate) client: &'a Client,
}

impl ForceScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        self.names
            .call(&FORCE)
            .can_do_with(1)
            .arg(letter(self.side))
            .arg(self.owner)
            .arg(self.serial.to_string())
            .arg(self.how.word())
            .arg(millis(self.client.retention()))
            .arg(self.client.wake_channels())
    }

    /// Returns true if the hold existed, for this call or for an earlier copy of it.
    pub(crate) fn decode(reply: &Value) -> Result<bool, Error> {
        let items = Items::new(&FORCE, reply)?;
        match items.text(1)? {
            "done" | "already" => Ok(true),
            "gone" => Ok(false),
            "kind" => Err(wrong_kind(items.text(2)?)),
            _ => Err(items.bad()),
        }
    }
}
