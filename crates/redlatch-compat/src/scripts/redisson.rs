//! The scripts in `redisson`.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, ErrorKind, Owner, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Changed, Grant, Items, REMEMBERED, ReleaseReply,
        ReleaseRequest, RenewRequest, Renewed, Script, ScriptCall, millis,
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
    names
        .call(&ACQUIRE)
        .dated()
        .arg(written(request.owner))
        .arg(request.attempt)
        .arg(millis(request.lease))
        .arg(millis(request.lease + REMEMBERED))
        .arg(if request.address.is_empty() { "1" } else { "" })
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
    names
        .call(&RENEW)
        .dated()
        .arg(written(request.owner))
        .arg(millis(request.lease))
        .arg(millis(request.lease + REMEMBERED))
        .arg(request.serial)
}

pub(crate) fn renewed(reply: &Value) -> Result<Renewed, Error> {
    Renewed::decode(&RENEW, reply)
}

/// `redisson/release.lua`.
pub(crate) fn release(names: &Names, request: &ReleaseRequest<'_>) -> ScriptCall {
    names
        .call(&RELEASE)
        .arg(written(request.owner))
        .arg(request.attempt)
        .maybe(request.void_by)
        .arg(millis(REMEMBERED))
        .arg(&names.channel)
        .maybe(request.serial)
}

pub(crate) fn released(reply: &Value) -> Result<ReleaseReply, Error> {
    ReleaseReply::decode(&RELEASE, reply)
}

/// `redisson/force.lua`. `op` is the id of the operation, and `operations` the key that remembers
/// it.
pub(crate) fn force(names: &Names, operations: &str, op: &AttemptId, hold: &Looked) -> ScriptCall {
    names
        .call(&FORCE)
        .key(operations)
        .dated()
        .arg(op)
        .arg(&hold.owner)
        .maybe(hold.serial)
        .arg(millis(REMEMBERED))
        .arg(&names.channel)
}

/// The result of a forced end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forced {
    /// Whether this call or an earlier copy of it ended the hold.
    pub(crate) freed: bool,
    /// The error of the server if it refused a message.
    pub(crate) refused: Option<String>,
}

pub(crate) fn forced(reply: &Value) -> Result<Changed<Forced>, Error> {
    let items = Items::new(&FORCE, reply)?;
    let done = |freed| {
        let refused = reply.as_array().and_then(|items| items.get(2)?.as_str());
        Changed::Done(Forced {
            freed,
            refused: refused.map(str::to_owned),
        })
    };
    match items.text(1)? {
        "done" => Ok(done(true)),
        "gone" => Ok(done(false)),
        "late" => Ok(Changed::Late),
        "kind" => Err(wrong_kind()),
        _ => Err(items.bad()),
    }
}

/// `redisson/look.lua`.
pub(crate) fn look(names: &Names) -> ScriptCall {
    names.call(&LOOK)
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
