//! The scripts of the rate limiter. No other file knows the order of their keys and arguments.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error,
    family::{AttemptId, Changed, Items, Key, REMEMBERED, Script, ScriptCall, millis},
    runtime::Value,
};
use redlatch_lua::LIMIT;

use crate::{lines::Settlement, rate::Rate};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&LIMIT.acquire));
static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(&LIMIT.settle));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&LIMIT.look));

/// `limit/acquire.lua`.
pub(crate) struct AcquireScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) rate: Rate,
    pub(crate) cost: u64,
    /// 1 to [`MOST_PASSES`].
    pub(crate) passes: usize,
    pub(crate) wait: Duration,
}

/// The largest number of passes of one attempt.
pub(crate) const MOST_PASSES: usize = 64;

/// The reply of `limit/acquire.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) passes: usize,
    /// The time until they count. Without one, the time until one may be taken.
    pub(crate) wait: Duration,
    /// The µs until all tokens are paid.
    pub(crate) debt: u64,
    /// The server's time in µs at which they count.
    pub(crate) at: u64,
    /// Where the debt ends. `None` if the answer is to a copy.
    pub(crate) mark: Option<u64>,
}

impl AcquireScript<'_> {
    pub(crate) fn call(&self, attempt: &AttemptId) -> ScriptCall {
        change(&ACQUIRE, self.key, attempt, self.rate)
            .arg(self.rate.burst)
            .arg(self.cost)
            .arg(self.passes)
            .arg(self.wait.as_micros())
    }

    pub(crate) fn decode(reply: &Value) -> Result<Changed<Passed>, Error> {
        let items = Items::new(&ACQUIRE, reply)?;
        Ok(match items.text(1)? {
            "passed" => Changed::Done(Passed {
                passes: items.number(2)?,
                wait: Duration::from_micros(items.number(3)?),
                debt: items.number(4)?,
                at: items.number(5)?,
                mark: items.maybe(6)?,
            }),
            _ => return other(&items),
        })
    }
}

/// `limit/settle.lua`.
pub(crate) struct SettleScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) settlement: Settlement,
}

impl SettleScript<'_> {
    pub(crate) fn call(&self, attempt: &AttemptId) -> ScriptCall {
        let Settlement { cost, tokens, .. } = self.settlement;
        change(&SETTLE, self.key, attempt, self.settlement.rate)
            .arg(cost)
            .arg(tokens)
            .maybe(self.settlement.mark)
    }

    /// Returns the debt in µs.
    pub(crate) fn decode(reply: &Value) -> Result<Changed<u64>, Error> {
        let items = Items::new(&SETTLE, reply)?;
        Ok(match items.text(1)? {
            "settled" => Changed::Done(items.number(2)?),
            _ => return other(&items),
        })
    }
}

/// `limit/look.lua`.
pub(crate) struct LookScript<'a> {
    pub(crate) key: &'a Key,
}

/// The debt that `limit/look.lua` shows: `micros`, in which `count` tokens per `period` are paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) micros: u64,
    pub(crate) count: u64,
    pub(crate) period: u64,
}

impl Debt {
    /// Returns the rate at which it is paid, with the least burst.
    pub(crate) const fn rate(&self) -> Rate {
        Rate {
            count: self.count,
            period: self.period,
            burst: 1,
        }
    }
}

impl LookScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        ScriptCall::new(&LOOK, self.key).key(self.key.as_str())
    }

    /// Returns `None` if nothing is owed.
    pub(crate) fn decode(reply: &Value) -> Result<Option<Debt>, Error> {
        let items = Items::new(&LOOK, reply)?;
        Ok(match items.text(1)? {
            "owes" => Some(Debt {
                micros: items.number(2)?,
                count: items.number(3)?,
                period: items.number(4)?,
            }),
            "free" => None,
            "kind" => return Err(wrong_kind(&items)?),
            _ => return Err(items.bad()),
        })
    }
}

/// Starts a call that changes the limiter at `key`.
fn change(script: &'static Script, key: &Key, attempt: &AttemptId, rate: Rate) -> ScriptCall {
    ScriptCall::new(script, key)
        .dated()
        .key(key.as_str())
        .arg(attempt.client())
        .arg(millis(REMEMBERED))
        .arg(attempt.suffix())
        .arg(rate.count)
        .arg(rate.period)
}

/// The answers that all changes share.
fn other<R>(items: &Items<'_>) -> Result<Changed<R>, Error> {
    match items.text(1)? {
        "late" => Ok(Changed::Late),
        "kind" => Err(wrong_kind(items)?),
        _ => Err(items.bad()),
    }
}

fn wrong_kind(items: &Items<'_>) -> Result<Error, Error> {
    Ok(Error::wrong_kind(items.text(2)?, "limit:1"))
}

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use super::{replies::decodes_anything, *};

    #[test]
    fn any_reply_is_decoded_or_refused() {
        decodes_anything(&["passed", "void", "late", "kind"], AcquireScript::decode);
        decodes_anything(&["settled", "void", "late", "kind"], SettleScript::decode);
        decodes_anything(&["owes", "free", "kind"], LookScript::decode);
    }
}
