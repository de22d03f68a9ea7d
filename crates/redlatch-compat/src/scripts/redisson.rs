//! The scripts in `redisson`.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Error, ErrorKind, Owner, Token,
    family::{
        AcquireRequest, Answer, AttemptId, Grant, Identity, Items, Primitive, REMEMBERED,
        ReleaseRequest, RenewRequest, ScriptCall, millis,
    },
    runtime::Value,
};
use redlatch_lua::REDISSON;

use super::{Names, message_refused};
use crate::RedissonInfo;

/// A name in the layout of Redisson's `RLock`.
#[derive(Clone, Debug)]
pub(crate) struct RedissonName(pub(crate) Names);

impl Primitive for RedissonName {
    fn kind(&self) -> &'static str {
        "redisson"
    }

    fn identity(&self) -> &Identity {
        &self.0.identity
    }

    fn channel(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.0.channel))
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        let call = self.0.call(&REDISSON.acquire).dated();
        call.arg(written(request.owner))
            .arg(request.attempt)
            .arg(millis(request.lease))
            .arg(millis(request.lease + REMEMBERED))
            .arg(if request.address.is_none() { "1" } else { "" })
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(&REDISSON.acquire, reply)?;
        Ok(match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                count: items.number(2)?,
                serial: items.number(3)?,
                ..Grant::new(Token::NONE)
            }),
            "busy" => {
                let left = items.maybe_span(2)?.unwrap_or(Duration::MAX);
                Answer::busy(left, &read(items.text(3)?))
            }
            "kind" => return Err(wrong_kind()),
            _ => Answer::neither(&items, "redisson")?,
        })
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        let call = self.0.call(&REDISSON.renew).dated();
        call.arg(written(request.owner))
            .arg(millis(request.lease))
            .arg(millis(request.lease + REMEMBERED))
            .arg(request.serial)
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        let call = self.0.call(&REDISSON.release);
        call.arg(written(request.owner))
            .arg(request.attempt)
            .maybe(request.void_by)
            .arg(millis(REMEMBERED))
            .arg(&self.0.channel)
            .maybe(request.serial)
    }

    fn message_refused<'a>(&self, reply: &'a Value) -> Option<&'a str> {
        message_refused(reply)
    }
}

/// Calls `redisson/force.lua`. `op` is the id of the operation, and `operations` the key that
/// remembers it.
pub(crate) fn force(
    names: &Names,
    operations: &str,
    op: &AttemptId,
    (hold, serial): &Looked,
) -> ScriptCall {
    let call = names.call(&REDISSON.force).key(operations).dated();
    call.arg(op)
        .arg(&hold.owner)
        .maybe(*serial)
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

pub(crate) fn forced(items: &Items<'_>) -> Result<Forced, Error> {
    let freed = match items.text(1)? {
        "done" => true,
        "gone" => false,
        "kind" => return Err(wrong_kind()),
        _ => return Err(items.bad()),
    };
    let refused = items.value(2).and_then(Value::as_str);
    Ok(Forced {
        freed,
        refused: refused.map(str::to_owned),
    })
}

/// Calls `redisson/look.lua`.
pub(crate) fn look(names: &Names) -> ScriptCall {
    names.call(&REDISSON.look)
}

/// The present hold, and its serial if a client of this family holds the name.
pub(crate) type Looked = (RedissonInfo, Option<u64>);

pub(crate) fn looked(items: &Items<'_>) -> Result<Option<Looked>, Error> {
    Ok(match items.text(1)? {
        "free" => None,
        "held" => {
            let info = RedissonInfo {
                owner: items.text(2)?.to_owned(),
                count: items.number(3)?,
                remaining: items.maybe_span(4)?,
            };
            Some((info, items.text(5)?.parse().ok()))
        }
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
