//! The scripts of the rate limiter. No other file knows the order of their keys and arguments.

use std::time::Duration;

use redlatch_core::{
    Error,
    family::{AttemptId, Items, Key, REMEMBERED, Script, ScriptCall, millis},
};
use redlatch_lua::LIMIT;

use crate::{
    lines::Settlement,
    rate::{Rate, Terms},
};

/// The largest number of passes of one attempt.
pub(crate) const MOST_PASSES: usize = 64;

/// The reply of `limit/acquire.lua`.
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
    /// Where the debt of the pass ends: at `from` + `left`.
    pub(crate) from: u64,
    pub(crate) left: i64,
    /// When the limiter, or its rate, was new.
    pub(crate) born: u64,
    /// When the last of the passes counts that were taken ahead before, or 0.
    pub(crate) turn: u64,
    /// The µs from `from` until the pass counts.
    pub(crate) wait: u64,
}

/// Calls `limit/acquire.lua` for up to [`MOST_PASSES`] passes of `cost` tokens each.
pub(crate) fn acquire(
    key: &Key,
    attempt: &AttemptId,
    Terms { rate, cost }: Terms,
    passes: usize,
    wait: Duration,
) -> ScriptCall {
    let (count, period, burst, wait) = (rate.count, rate.period, rate.burst, wait.as_micros());
    let terms = format_args!("{count}/{period}/{burst}/{cost}/{passes}/{wait}");
    change(&LIMIT.acquire, key, attempt).arg(terms)
}

pub(crate) fn acquired(items: &Items<'_>) -> Result<Passed, Error> {
    Ok(match items.text(1)? {
        "passed" => Passed {
            passes: items.number(2)?,
            wait: Duration::from_micros(items.number(3)?),
            debt: items.number(4)?,
            at: items.number(5)?,
            mark: match items.maybe(6)? {
                Some(from) => Some(Mark {
                    from,
                    left: items.number(7)?,
                    born: items.number(8)?,
                    turn: items.number(9)?,
                    wait: items.number(3)?,
                }),
                None => None,
            },
        },
        _ => return items.other(STORED),
    })
}

/// Calls `limit/settle.lua`.
pub(crate) fn settle(key: &Key, attempt: &AttemptId, settlement: &Settlement) -> ScriptCall {
    change(&LIMIT.settle, key, attempt)
        .arg(settlement.terms.rate.count)
        .arg(settlement.terms.rate.period)
        .arg(settlement.terms.cost)
        .arg(settlement.tokens)
        .maybe(settlement.mark.map(|mark| mark.from))
        .maybe(settlement.mark.map(|mark| mark.left))
        .maybe(settlement.mark.map(|mark| mark.born))
        .maybe(settlement.mark.map(|mark| mark.turn))
        .maybe(settlement.mark.map(|mark| mark.wait))
}

/// Returns the debt in µs.
pub(crate) fn settled(items: &Items<'_>) -> Result<u64, Error> {
    match items.text(1)? {
        "settled" => items.number(2),
        _ => items.other(STORED),
    }
}

/// The debt that `limit/look.lua` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) micros: u64,
    /// The rate at which it is paid, with the least burst.
    pub(crate) rate: Rate,
    /// The µs of it until this rate begins. Passes of another rate count until then.
    pub(crate) ahead: u64,
    /// The µs of it until another rate may begin.
    pub(crate) turn: u64,
}

impl Debt {
    /// Returns the tokens that are owed after the first `ahead` µs.
    pub(crate) fn owed(&self, ahead: u64) -> u64 {
        self.rate.owed(self.micros.saturating_sub(ahead))
    }
}

/// Calls `limit/look.lua`.
pub(crate) fn look(key: &Key) -> ScriptCall {
    ScriptCall::new(&LIMIT.look, key)
}

/// Returns `None` if nothing is owed.
pub(crate) fn looked(items: &Items<'_>) -> Result<Option<Debt>, Error> {
    Ok(match items.text(1)? {
        "owes" => Some(Debt {
            micros: items.number(2)?,
            rate: Rate {
                count: items.number(3)?,
                period: items.number(4)?,
                burst: 1,
            },
            ahead: items.number(5)?,
            turn: items.number(6)?,
        }),
        "free" => None,
        _ => return items.other(STORED),
    })
}

/// Starts a call that changes the limiter at `key`.
fn change(script: &'static Script, key: &Key, attempt: &AttemptId) -> ScriptCall {
    ScriptCall::new(script, key)
        .dated()
        .arg(attempt.client())
        .arg(millis(REMEMBERED))
        .arg(attempt.suffix())
}

/// The kind of a rate limiter as the server stores it.
const STORED: &str = "limit:1";

#[cfg(test)]
mod tests {
    use redlatch_core::runtime::Value;

    use super::*;

    mod replies {
        include!("../../redlatch-core/src/runtime/tests/replies.rs");
    }

    #[test]
    fn any_reply_is_decoded_or_refused() {
        replies::reads_anything(&LIMIT.acquire, &["passed", "void", "kind"], acquired);
        replies::reads_anything(&LIMIT.settle, &["settled", "void", "kind"], settled);
        replies::reads_anything(&LIMIT.look, &["owes", "free", "kind"], looked);
    }
}
