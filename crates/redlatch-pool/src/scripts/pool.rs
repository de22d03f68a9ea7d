//! The scripts that change and inspect a pool.

use std::time::Duration;

use redlatch_core::{
    Error,
    family::{AttemptId, Changed, Items, Key, REMEMBERED, ScriptCall, millis},
    runtime::Value,
};
use redlatch_lua::POOL;

use super::queued;
use crate::{Hold, Totals};

/// A change of the number of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set(u32),
    TrySet(u32),
    Add(i64),
    Drain,
    Delete,
}

/// The result of `pool/change.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// The change was made; the number is the size after it, or the number of drained permits.
    Done(u32),
    /// The number is already set.
    Set,
    /// The number is not set.
    Unset,
    /// The present size; the new one would be too small or too large.
    OutOfRange(u32),
    /// More expired entries have to be removed first.
    More,
}

/// Calls `pool/change.lua`. The TTL of the pool is zero for ever, `None` to leave it.
pub(crate) fn change(
    key: &Key,
    kind: &str,
    op: &AttemptId,
    change: Change,
    ttl: Option<Duration>,
) -> ScriptCall {
    let (verb, number) = match change {
        Change::Set(size) => ("set", i64::from(size)),
        Change::TrySet(size) => ("try", i64::from(size)),
        Change::Add(change) => ("add", change),
        Change::Drain => ("drain", 0),
        Change::Delete => ("delete", 0),
    };
    queued(&POOL.change, key)
        .dated()
        .key(key.part("o"))
        .key(key.part("p"))
        .arg(kind)
        .arg(op)
        .arg(millis(REMEMBERED))
        .arg(verb)
        .arg(number)
        .maybe(ttl.map(millis))
}

pub(crate) fn changed(kind: &str, reply: &Value) -> Result<Changed<Made>, Error> {
    let items = Items::new(&POOL.change, reply)?;
    Ok(Changed::Done(match items.text(1)? {
        "done" => Made::Done(items.number(2)?),
        "set" => Made::Set,
        "unset" => Made::Unset,
        "below" | "above" => Made::OutOfRange(items.number(2)?),
        "more" => Made::More,
        _ => return items.other_change(kind),
    }))
}

/// The state that `pool/inspect.lua` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inspected {
    Set(Totals),
    Unset,
    /// More expired entries have to be removed first.
    More,
}

/// Calls `pool/inspect.lua`.
pub(crate) fn inspect(key: &Key, kind: &str, size: Option<u32>) -> ScriptCall {
    queued(&POOL.inspect, key).arg(kind).maybe(size)
}

pub(crate) fn inspected(kind: &str, reply: &Value) -> Result<Inspected, Error> {
    let items = Items::new(&POOL.inspect, reply)?;
    Ok(match items.text(1)? {
        "set" => {
            let (permits, acquired) = (items.number(2)?, items.number(3)?);
            Inspected::Set(Totals {
                permits,
                acquired,
                available: permits.saturating_sub(acquired),
                waiters: items.number(4)?,
                remaining: items.maybe_span(5)?,
            })
        }
        "unset" => Inspected::Unset,
        "more" => Inspected::More,
        _ => return items.other(kind),
    })
}

/// Calls `pool/holds.lua`.
pub(crate) fn holds(key: &Key, kind: &str, from: usize, count: usize) -> ScriptCall {
    let call = ScriptCall::new(&POOL.holds, key).key(key.part("d"));
    call.arg(kind).arg(from).arg(count)
}

/// Returns the number of examined holds, and the living ones among them.
pub(crate) fn listed(kind: &str, reply: &Value) -> Result<(usize, Vec<Hold>), Error> {
    let items = Items::new(&POOL.holds, reply)?;
    if items.text(1).is_ok_and(|verdict| verdict == "kind") {
        return items.other(kind);
    }
    let hold = |at: usize| {
        Ok(Hold {
            id: items.text(at)?.to_owned(),
            permits: items.number(at + 1)?,
            remaining: items.span(at + 2)?,
        })
    };
    let holds: Result<_, Error> = (2..items.len()).step_by(3).map(hold).collect();
    Ok((items.number(1)?, holds?))
}

/// Calls `pool/look.lua`.
pub(crate) fn look(key: &Key, kind: &str, holds: &[String]) -> ScriptCall {
    ScriptCall::new(&POOL.look, key).arg(kind).args(holds)
}

/// Returns the remaining time of each hold; zero if it is over or unknown.
pub(crate) fn looked(kind: &str, reply: &Value) -> Result<Vec<Duration>, Error> {
    let items = Items::new(&POOL.look, reply)?;
    if items.text(1).is_ok_and(|verdict| verdict == "kind") {
        return items.other(kind);
    }
    (1..items.len()).map(|at| items.span(at)).collect()
}
