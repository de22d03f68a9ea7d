//! The scripts in `redisson`.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, ErrorKind, Owner, Token,
    family::{
        AcquireRequest, Answer, Grant, Items, REMEMBERED, ReleaseReply, ReleaseRequest,
        RenewRequest, Renewed, Script, ScriptCall, millis,
    },
    runtime::Value,
};
use redlatch_lua::REDISSON;

use super::Names;

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&REDISSON.acquire));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&REDISSON.renew));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&REDISSON.release));
static FORCE: LazyLock<Script> = LazyLock::new(|| Script::new(&REDISSON.force));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&REDISSON.look));

/// `redisson/acquire.lua`.
pub(crate) fn acquire(names: &Names, request: &AcquireRequest<'_>) -> ScriptCall {
    both(&ACQUIRE, names)
        .dated()
        .arg(written(request.owner))
        .arg(request.attempt)
        .arg(millis(request.lease))
        .arg(millis(request.lease + REMEMBERED))
}

pub(crate) fn acquired(reply: &Value) -> Result<Answer, Error> {
    let items = Items::new(&ACQUIRE, reply)?;
    Ok(match items.text(1)? {
        "granted" => Answer::Granted(Grant {
            count: items.number(2)?,
            token: Token::NONE,
            serial: items.number(3)?,
            abandoned: false,
            lasts: None,
            unqueued: false,
        }),
        "busy" => Answer::Busy {
            remaining: items.maybe(2)?.map_or(Duration::MAX, Duration::from_millis),
            holder: read(items.text(3)?),
            called: None,
            entered: false,
            beside: false,
        },
        "late" => Answer::Late,
        "void" => Answer::Void,
        "kind" => return Err(wrong_kind()),
        _ => return Err(items.bad()),
    })
}

/// `redisson/renew.lua`.
pub(crate) fn renew(names: &Names, request: &RenewRequest<'_>) -> ScriptCall {
    both(&RENEW, names)
        .dated()
        .arg(written(request.owner))
        .arg(millis(request.lease))
        .arg(millis(request.lease + REMEMBERED))
}

pub(crate) fn renewed(reply: &Value) -> Result<Renewed, Error> {
    Renewed::decode(&RENEW, reply)
}

/// `redisson/release.lua`.
pub(crate) fn release(names: &Names, request: &ReleaseRequest<'_>) -> ScriptCall {
    both(&RELEASE, names)
        .arg(written(request.owner))
        .arg(request.attempt)
        .maybe(request.void_by)
        .arg(millis(REMEMBERED))
        .arg(&names.channel)
}

pub(crate) fn released(reply: &Value) -> Result<ReleaseReply, Error> {
    ReleaseReply::decode(&RELEASE, reply)
}

/// `redisson/force.lua`. `holder` is an owner as Redisson writes it.
pub(crate) fn force(names: &Names, holder: &str) -> ScriptCall {
    ScriptCall::new(&FORCE, &names.key)
        .key(&names.key)
        .arg(holder)
        .arg(&names.channel)
}

/// Tells whether this call freed the name.
pub(crate) fn forced(reply: &Value) -> Result<bool, Error> {
    let items = Items::new(&FORCE, reply)?;
    match items.text(1)? {
        "done" => Ok(true),
        "gone" => Ok(false),
        "kind" => Err(wrong_kind()),
        _ => Err(items.bad()),
    }
}

/// `redisson/look.lua`.
pub(crate) fn look(names: &Names) -> ScriptCall {
    both(&LOOK, names)
}

/// A hold, as the server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// The owner, as Redisson writes it.
    pub(crate) owner: String,
    pub(crate) count: u32,
    /// `None` if the lease has no end.
    pub(crate) remaining: Option<Duration>,
    /// `None` unless a client of this family holds the name.
    pub(crate) serial: Option<u64>,
}

pub(crate) fn looked(reply: &Value) -> Result<Option<Looked>, Error> {
    let items = Items::new(&LOOK, reply)?;
    Ok(match items.text(1)? {
        "free" => None,
        "held" => Some(Looked {
            owner: items.text(2)?.to_owned(),
            count: items.number(3)?,
            remaining: items.maybe(4)?.map(Duration::from_millis),
            serial: items.text(5)?.parse().ok(),
        }),
        "kind" => return Err(wrong_kind()),
        _ => return Err(items.bad()),
    })
}

fn both(script: &'static Script, names: &Names) -> ScriptCall {
    ScriptCall::new(script, &names.key)
        .key(&names.key)
        .key(&names.side)
}

fn wrong_kind() -> Error {
    Error::new(
        ErrorKind::WrongKind,
        "the hash under the name is no RLock of Redisson: it belongs to a read-write lock or another program; choose another name",
    )
}

/// Writes an owner as Redisson does: a UUID with hyphens, and a number in place of its thread's.
pub(crate) fn written(owner: &Owner) -> String {
    let owner = owner.to_string();
    match owner.split_once(':') {
        Some((client, number)) if client.len() == 32 && client.is_ascii() => format!(
            "{}-{}-{}-{}-{}:{number}",
            &client[..8],
            &client[8..12],
            &client[12..16],
            &client[16..20],
            &client[20..]
        ),
        _ => owner,
    }
}

/// Reads an owner as this family writes it. The owner of a Java thread looks the same.
fn read(owner: &str) -> String {
    owner.replace('-', "")
}
