//! The scripts of the fence. No other file knows the order of their keys and arguments.

use std::{
    collections::HashMap,
    fmt,
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use redlatch_core::{
    Error, ErrorKind, Token,
    family::{AttemptId, Items, REMEMBERED, Script, ScriptCall, kept_script, millis},
    runtime::Value,
};
use redlatch_lua::FENCE;

use crate::{Fenced, fence::Place};

/// A Lua script that [`Fence::eval`](crate::Fence::eval) runs behind the check of the token, in the
/// same server call.
///
/// Its text is the body of a function. `KEYS[1]` is the key of the fence, further keys follow, and
/// `ARGV` has the arguments; `redis.call` is there as always. What it returns is the reply.
///
/// The text has ASCII characters only: servers quote a part of a wrong line in their error, which
/// may be half of another character. Write others as escapes, such as `'\195\169'`, or pass them
/// as arguments.
///
/// The check comes first and is a write, so `SCRIPT KILL` cannot end a body that never returns.
///
/// Each text is kept for the life of the process, once. Make a script once per text, not per call
/// with values in the text.
///
/// # Examples
///
/// ```
/// use redlatch::fence::FencedScript;
///
/// let take = FencedScript::new("return redis.call('DECRBY', KEYS[1], ARGV[1])");
/// # assert_eq!(take, FencedScript::new("return redis.call('DECRBY', KEYS[1], ARGV[1])"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FencedScript {
    pub(crate) body: &'static str,
    pub(crate) script: &'static Script,
}

/// The texts that were used once.
static KNOWN: LazyLock<Mutex<HashMap<&'static str, FencedScript>>> = LazyLock::new(Mutex::default);

impl FencedScript {
    /// Creates a script of a function's body. The server compiles the script with the first
    /// call, which reports a syntax error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::fence::FencedScript;
    ///
    /// let guard = client.lock("invoices").lock().await?;
    /// let count = FencedScript::new("return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)");
    /// let invoices = client.fence("invoices:counts");
    /// let sent = invoices.eval(guard.token(), count, &[], &[b"sent"]).await?;
    /// assert_eq!(sent.written().flatten().and_then(|sent| sent.as_int()), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(body: &str) -> Self {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(body) {
            return *known;
        }
        let script = kept_script(FENCE.eval.name, FENCE.eval(body));
        let body: &'static str = Box::leak(body.into());
        *known.entry(body).or_insert(Self { body, script })
    }
}

impl fmt::Debug for FencedScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FencedScript").field(&self.body).finish()
    }
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
    pub(crate) fn decode(&self, items: &Items<'_>) -> Result<Fenced<Option<Value>>, Error> {
        Ok(match items.text(1)? {
            "written" => {
                let result = items.value(2);
                Fenced::Written(Some(result.cloned().unwrap_or(Value::Nil)))
            }
            "already" => Fenced::Written(None),
            "failed" => {
                let why = items.value(2).and_then(Value::as_bytes);
                let why = String::from_utf8_lossy(why.ok_or_else(|| items.bad())?);
                let data = self.place.data();
                let message = format!("the fenced script of {data:?} has failed: {why}");
                return Err(Error::new(ErrorKind::ScriptFailed, message));
            }
            "fenced" => Fenced::Refused {
                mark: Token::from_u64(items.number(2)?),
            },
            _ => return items.other(STORED),
        })
    }
}

/// Calls `fence/reset.lua`.
pub(crate) fn reset(place: &Place, op: &AttemptId) -> ScriptCall {
    let call = change(&FENCE.reset, place);
    call.arg(op).arg(millis(REMEMBERED))
}

/// Returns the mark that this call has removed.
pub(crate) fn was_reset(items: &Items<'_>) -> Result<Option<Token>, Error> {
    Ok(match items.text(1)? {
        "reset" => items.maybe(2)?.map(Token::from_u64),
        "already" => None,
        _ => return items.other(STORED),
    })
}

/// Calls `fence/look.lua`.
pub(crate) fn look(place: &Place) -> ScriptCall {
    ScriptCall::in_slot(&FENCE.look, place.key.slot()).key(&place.mark)
}

pub(crate) fn looked(items: &Items<'_>) -> Result<Option<Token>, Error> {
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
mod tests {
    use redlatch_core::family::{Key, Name, Prefix};

    use super::*;

    mod replies {
        include!("../../redlatch-core/src/runtime/tests/replies.rs");
    }

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
        let words = ["written", "already", "failed", "fenced", "kind"];
        replies::reads_anything(&FENCE.raise, &words, |items| write.decode(items));
        replies::reads_anything(&FENCE.reset, &["reset", "already", "kind"], was_reset);
        replies::reads_anything(&FENCE.look, &["mark", "unset", "kind"], looked);
    }
}
