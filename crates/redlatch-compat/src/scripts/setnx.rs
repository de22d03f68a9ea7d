//! The scripts in `setnx`.

use std::{sync::Arc, time::Duration};

use redlatch_core::{
    Error, Token,
    family::{
        AcquireRequest, Answer, Grant, Identity, Items, Key, Primitive, REMEMBERED, ReleaseRequest,
        RenewRequest, ScriptCall, millis,
    },
    runtime::Value,
};
use redlatch_lua::SETNX;

use super::{Names, message_refused};
use crate::SetNxInfo;

/// A name in the layout of a string that is set if it is absent.
#[derive(Clone, Debug)]
pub(crate) struct SetNxName {
    pub(crate) names: Names,
    /// The longest time between two requests of a waiter, since no message of the other library
    /// tells it when to ask.
    pub(crate) retry: Duration,
}

impl Primitive for SetNxName {
    fn kind(&self) -> &'static str {
        "set_nx"
    }

    fn identity(&self) -> &Identity {
        &self.names.identity
    }

    fn channel(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.names.channel))
    }

    fn acquire(&self, request: &AcquireRequest<'_>) -> ScriptCall {
        let call = self.names.call(&SETNX.acquire).dated();
        call.arg(request.attempt)
            .arg(millis(request.lease))
            .arg(millis(request.lease + REMEMBERED))
            .arg(if request.address.is_none() { "1" } else { "" })
    }

    fn acquired(&self, reply: &Value) -> Result<Answer, Error> {
        let items = Items::new(&SETNX.acquire, reply)?;
        Ok(match items.text(1)? {
            "granted" => Answer::Granted(Grant {
                serial: items.number(2)?,
                ..Grant::new(Token::NONE)
            }),
            "busy" => {
                let left = items.maybe_span(2)?.unwrap_or(Duration::MAX);
                Answer::busy(left.min(self.retry), items.text(3)?)
            }
            _ => Answer::neither(&items, "set_nx")?,
        })
    }

    fn renew(&self, request: &RenewRequest<'_>) -> ScriptCall {
        let call = self.names.call(&SETNX.renew).dated();
        call.arg(request.attempt)
            .arg(request.serial)
            .arg(millis(request.lease))
            .arg(millis(request.lease + REMEMBERED))
    }

    fn release(&self, request: &ReleaseRequest<'_>) -> ScriptCall {
        let call = self.names.call(&SETNX.release);
        call.arg(request.attempt)
            .maybe(request.serial)
            .maybe(request.void_by)
            .arg(millis(REMEMBERED))
            .arg(&self.names.channel)
    }

    fn message_refused<'a>(&self, reply: &'a Value) -> Option<&'a str> {
        message_refused(reply)
    }
}

/// Calls `setnx/look.lua`.
pub(crate) fn look(key: &Key) -> ScriptCall {
    ScriptCall::new(&SETNX.look, key)
}

/// Returns `None` if the name is free.
pub(crate) fn looked(items: &Items<'_>) -> Result<Option<SetNxInfo>, Error> {
    match items.text(1)? {
        "free" => Ok(None),
        "held" => {
            // The value may be any bytes, so it is no text.
            let value = items.value(3).and_then(Value::as_bytes);
            let value = value.ok_or_else(|| items.bad())?;
            Ok(Some(SetNxInfo {
                value: value.to_vec(),
                remaining: items.maybe_span(2)?,
            }))
        }
        _ => Err(items.bad()),
    }
}
