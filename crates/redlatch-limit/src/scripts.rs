//! The scripts of the rate limiter. No other file knows the order of their keys and arguments.

use std::time::Duration;

use redlatch_core::{
    Error,
    family::{AttemptId, Changed, Items, Key, REMEMBERED, Script, ScriptCall, millis},
    runtime::Value,
};
use redlatch_lua::LIMIT;

use crate::{lines::Settlement, rate::Rate};

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
    /// `None` if the answer is to a copy.
    pub(crate) mark: Option<Mark>,
}

/// Identifies a pass for its settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Where the debt of the pass ends.
    pub(crate) ends: u64,
    /// When the limiter, or its rate, was new.
    pub(crate) born: u64,
}

impl AcquireScript<'_> {
    pub(crate) fn call(&self, attempt: &AttemptId) -> ScriptCall {
        change(&LIMIT.acquire, self.key, attempt, self.rate)
            .arg(self.rate.burst)
            .arg(self.cost)
            .arg(self.passes)
            .arg(self.wait.as_micros())
    }

    pub(crate) fn decode(reply: &Value) -> Result<Changed<Passed>, Error> {
        let items = Items::new(&LIMIT.acquire, reply)?;
        Ok(match items.text(1)? {
            "passed" => Changed::Done(Passed {
                passes: items.number(2)?,
                wait: Duration::from_micros(items.number(3)?),
                debt: items.number(4)?,
                at: items.number(5)?,
                mark: match (items.maybe(6)?, items.maybe(7)?) {
                    (Some(ends), Some(born)) => Some(Mark { ends, born }),
                    _ => None,
                },
            }),
            _ => return items.other_change(STORED),
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
        change(&LIMIT.settle, self.key, attempt, self.settlement.rate)
            .arg(cost)
            .arg(tokens)
            .maybe(self.settlement.mark.map(|mark| mark.ends))
            .maybe(self.settlement.mark.map(|mark| mark.born))
    }

    /// Returns the debt in µs.
    pub(crate) fn decode(reply: &Value) -> Result<Changed<u64>, Error> {
        let items = Items::new(&LIMIT.settle, reply)?;
        Ok(match items.text(1)? {
            "settled" => Changed::Done(items.number(2)?),
            _ => return items.other_change(STORED),
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
        ScriptCall::new(&LIMIT.look, self.key)
    }

    /// Returns `None` if nothing is owed.
    pub(crate) fn decode(reply: &Value) -> Result<Option<Debt>, Error> {
        let items = Items::new(&LIMIT.look, reply)?;
        Ok(match items.text(1)? {
            "owes" => Some(Debt {
                micros: items.number(2)?,
                count: items.number(3)?,
                period: items.number(4)?,
            }),
            "free" => None,
            _ => return items.other(STORED),
        })
    }
}

/// Starts a call that changes the limiter at `key`.
fn change(script: &'static Script, key: &Key, attempt: &AttemptId, rate: Rate) -> ScriptCall {
    ScriptCall::new(script, key)
        .dated()
        .arg(attempt.client())
        .arg(millis(REMEMBERED))
        .arg(attempt.suffix())
        .arg(rate.count)
        .arg(rate.period)
}

/// The kind of a rate limiter as the server stores it.
const STORED: &str = "limit:1";

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
