//! The scripts in `setnx`.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error, Token,
    family::{
        AcquireRequest, Answer, Grant, Items, REMEMBERED, ReleaseReply, ReleaseRequest,
        RenewRequest, Renewed, Script, ScriptCall, millis,
    },
    runtime::Value,
};
use redlatch_lua::SETNX;

use super::Names;
use crate::SetNxInfo;

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&SETNX.acquire));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&SETNX.renew));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&SETNX.release));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&SETNX.look));

/// `setnx/acquire.lua`.
pub(crate) fn acquire(names: &Names, request: &AcquireRequest<'_>) -> ScriptCall {
    names
        .call(&ACQUIRE)
        .dated()
        .arg(request.attempt)
        .arg(millis(request.lease))
        .arg(millis(request.lease + REMEMBERED))
        .arg(if request.address.is_empty() { "1" } else { "" })
}

/// Reads the reply. A waiter asks again after `retry` at the latest, since no message of the other
/// library tells it when to.
pub(crate) fn acquired(retry: Duration, reply: &Value) -> Result<Answer, Error> {
    let items = Items::new(&ACQUIRE, reply)?;
    Ok(match items.text(1)? {
        "granted" => Answer::Granted(Grant {
            count: 1,
            token: Token::NONE,
            serial: items.number(2)?,
            abandoned: false,
            lasts: None,
            unqueued: false,
        }),
        "busy" => Answer::Busy {
            remaining: items
                .maybe(2)?
                .map_or(retry, |left| retry.min(Duration::from_millis(left))),
            holder: items.text(3)?.to_owned(),
            called: None,
            entered: false,
            beside: false,
        },
        "late" => Answer::Late,
        "void" => Answer::Void,
        _ => return Err(items.bad()),
    })
}

/// `setnx/renew.lua`.
pub(crate) fn renew(names: &Names, request: &RenewRequest<'_>) -> ScriptCall {
    names
        .call(&RENEW)
        .dated()
        .arg(request.attempt)
        .arg(request.serial)
        .arg(millis(request.lease))
        .arg(millis(request.lease + REMEMBERED))
}

pub(crate) fn renewed(reply: &Value) -> Result<Renewed, Error> {
    Renewed::decode(&RENEW, reply)
}

/// `setnx/release.lua`.
pub(crate) fn release(names: &Names, request: &ReleaseRequest<'_>) -> ScriptCall {
    names
        .call(&RELEASE)
        .arg(request.attempt)
        .maybe(request.serial)
        .maybe(request.void_by)
        .arg(millis(REMEMBERED))
        .arg(&names.channel)
}

pub(crate) fn released(reply: &Value) -> Result<ReleaseReply, Error> {
    ReleaseReply::decode(&RELEASE, reply)
}

/// `setnx/look.lua`.
pub(crate) fn look(names: &Names) -> ScriptCall {
    ScriptCall::new(&LOOK, &names.key).key(&names.key)
}

/// Returns `None` if the name is free.
pub(crate) fn looked(reply: &Value) -> Result<Option<SetNxInfo>, Error> {
    let bad = || Error::bad_reply(LOOK.name(), reply);
    let items = Items::new(&LOOK, reply)?;
    match items.text(1)? {
        "free" => Ok(None),
        "held" => {
            // The value may be any bytes, so it is no text.
            let values = reply.as_array().ok_or_else(bad)?;
            let value = values.get(3).and_then(Value::as_bytes).ok_or_else(bad)?;
            Ok(Some(SetNxInfo {
                value: value.to_vec(),
                remaining: items.maybe(2)?.map(Duration::from_millis),
            }))
        }
        _ => Err(bad()),
    }
}
