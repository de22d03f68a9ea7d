//! The scripts of the fence. No other file knows the order of their keys and arguments.

use std::time::Duration;

use redlatch_core::{
    Error, ErrorKind, Token,
    family::{AttemptId, Changed, Items, REMEMBERED, Script, ScriptCall, kept_script, millis},
    runtime::Value,
};
use redlatch_lua::FENCE;

use crate::{Fenced, FencedScript, fence::Place};

/// Makes the script that runs a body of the user.
pub(crate) fn fenced(body: &str) -> &'static Script {
    kept_script(FENCE.eval.name, FENCE.eval(body))
}

/// A change of fenced data: one of the scripts behind `fence/shared.lua`.
pub(crate) struct FencedWrite<'a> {
    pub(crate) place: &'a Place,
    pub(crate) token: Token,
    /// How long the mark is kept without a write; for ever if absent.
    pub(crate) life: Option<Duration>,
    pub(crate) what: Write<'a>,
}

/// The change that one call writes.
pub(crate) enum Write<'a> {
    Set {
        value: &'a [u8],
        ttl: Option<Duration>,
    },
    Fields(&'a [(&'a [u8], &'a [u8])]),
    Delete,
    Raise,
    Eval {
        script: FencedScript,
        keys: &'a [&'a str],
        args: &'a [&'a [u8]],
    },
}

impl FencedWrite<'_> {
    fn script(&self) -> &'static Script {
        match self.what {
            Write::Set { .. } => &FENCE.set,
            Write::Fields(_) => &FENCE.hset,
            Write::Delete => &FENCE.delete,
            Write::Raise => &FENCE.raise,
            Write::Eval { script, .. } => script.script,
        }
    }

    pub(crate) fn call(&self, op: &AttemptId) -> ScriptCall {
        let mut call = change(self.script(), self.place);
        if let Write::Eval { keys, .. } = self.what {
            call = call.keys(keys);
        }
        let call = call
            .arg(op)
            .arg(self.token)
            .arg(millis(REMEMBERED))
            .maybe(self.life.map(millis));
        match self.what {
            Write::Set { value, ttl } => call.bytes(value).maybe(ttl.map(millis)),
            Write::Fields(fields) => {
                let pairs = fields.iter();
                pairs.fold(call, |call, (field, value)| call.bytes(field).bytes(value))
            }
            Write::Delete | Write::Raise => call,
            Write::Eval { args, .. } => args.iter().fold(call, |call, arg| call.bytes(arg)),
        }
    }

    /// Returns the reply of the body, if there is one; `None` if an earlier copy has written.
    pub(crate) fn decode(&self, reply: &Value) -> Result<Changed<Fenced<Option<Value>>>, Error> {
        let items = Items::new(self.script(), reply)?;
        Ok(Changed::Done(match items.text(1)? {
            "written" => {
                let result = reply.as_array().and_then(|items| items.get(2));
                Fenced::Written(Some(result.cloned().unwrap_or(Value::Nil)))
            }
            "already" => Fenced::Written(None),
            "failed" => {
                let why = reply.as_array().and_then(|items| items.get(2));
                let why = why.and_then(Value::as_bytes).ok_or_else(|| items.bad())?;
                let message = format!(
                    "the fenced script of {:?} has failed: {}",
                    self.place.data(),
                    String::from_utf8_lossy(why)
                );
                return Err(Error::new(ErrorKind::ScriptFailed, message));
            }
            "fenced" => Fenced::Refused {
                mark: Token::from_u64(items.number(2)?),
            },
            _ => return items.other_change(STORED),
        }))
    }
}

/// Calls `fence/reset.lua`.
pub(crate) fn reset(place: &Place, op: &AttemptId) -> ScriptCall {
    let call = change(&FENCE.reset, place);
    call.arg(op).arg(millis(REMEMBERED))
}

/// Returns the mark that this call has removed.
pub(crate) fn was_reset(reply: &Value) -> Result<Changed<Option<Token>>, Error> {
    let items = Items::new(&FENCE.reset, reply)?;
    Ok(Changed::Done(match items.text(1)? {
        "reset" => items.maybe(2)?.map(Token::from_u64),
        "already" => None,
        _ => return items.other_change(STORED),
    }))
}

/// Calls `fence/look.lua`.
pub(crate) fn look(place: &Place) -> ScriptCall {
    ScriptCall::in_slot(&FENCE.look, place.key.slot()).key(&place.mark)
}

pub(crate) fn looked(reply: &Value) -> Result<Option<Token>, Error> {
    let items = Items::new(&FENCE.look, reply)?;
    match items.text(1)? {
        "mark" => Ok(Some(Token::from_u64(items.number(2)?))),
        "unset" => Ok(None),
        _ => items.other(STORED),
    }
}

/// Starts a call that changes fenced data or its mark.
fn change(script: &'static Script, place: &Place) -> ScriptCall {
    ScriptCall::in_slot(script, place.key.slot())
        .dated()
        .key(place.data())
        .key(&place.mark)
        .key(&place.operations)
}

/// The kind of a mark as the server stores it.
const STORED: &str = "fence:1";

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use redlatch_core::family::{Key, Name, Prefix};

    use super::{replies::decodes_anything, *};

    #[test]
    fn any_reply_is_decoded_or_refused() {
        let name = Name::parse("x").unwrap();
        let place = Place::of(Key::new(&Prefix::default(), &name));
        let write = FencedWrite {
            place: &place,
            token: Token::from_u64(1),
            life: None,
            what: Write::Raise,
        };
        decodes_anything(
            &["written", "already", "failed", "fenced", "late", "kind"],
            |reply| write.decode(reply),
        );
        decodes_anything(&["reset", "already", "late", "kind"], was_reset);
        decodes_anything(&["mark", "unset", "kind"], looked);
    }
}
