//! The scripts that change and inspect a pool.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error,
    family::{AttemptId, Changed, Items, Key, REMEMBERED, Script, ScriptCall, millis},
    runtime::Value,
};
use redlatch_lua::POOL;

use super::{other, queued};
use crate::{Hold, Totals};

static CHANGE: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.change));
static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.inspect));
static HOLDS: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.holds));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&POOL.look));

/// `pool/change.lua`.
pub(crate) struct ChangeScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) change: Change,
    /// The TTL of the pool; zero for ever, `None` to leave it.
    pub(crate) ttl: Option<Duration>,
}

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

impl ChangeScript<'_> {
    pub(crate) fn call(&self, op: &AttemptId) -> ScriptCall {
        let (verb, number) = match self.change {
            Change::Set(size) => ("set", i64::from(size)),
            Change::TrySet(size) => ("try", i64::from(size)),
            Change::Add(change) => ("add", change),
            Change::Drain => ("drain", 0),
            Change::Delete => ("delete", 0),
        };
        queued(&CHANGE, self.key)
            .dated()
            .key(self.key.part("o"))
            .key(self.key.part("p"))
            .arg(self.kind)
            .arg(op.to_string())
            .arg(millis(REMEMBERED))
            .arg(verb)
            .arg(number.to_string())
            .maybe(self.ttl.map(millis))
    }

    pub(crate) fn decode(&self, reply: &Value) -> Result<Changed<Made>, Error> {
        let items = Items::new(&CHANGE, reply)?;
        Ok(Changed::Done(match items.text(1)? {
            "done" => Made::Done(items.number(2)?),
            "set" => Made::Set,
            "unset" => Made::Unset,
            "below" | "above" => Made::OutOfRange(items.number(2)?),
            "more" => Made::More,
            "late" => return Ok(Changed::Late),
            _ => return other(&items, self.kind),
        }))
    }
}

/// `pool/inspect.lua`.
pub(crate) struct InspectScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) size: Option<u32>,
}

/// The state that `pool/inspect.lua` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inspected {
    Set(Totals),
    Unset,
    /// More expired entries have to be removed first.
    More,
}

impl InspectScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        queued(&INSPECT, self.key).arg(self.kind).maybe(self.size)
    }

    pub(crate) fn decode(&self, reply: &Value) -> Result<Inspected, Error> {
        let items = Items::new(&INSPECT, reply)?;
        Ok(match items.text(1)? {
            "set" => {
                let (permits, acquired) = (items.number(2)?, items.number(3)?);
                Inspected::Set(Totals {
                    permits,
                    acquired,
                    available: permits.saturating_sub(acquired),
                    waiters: items.number(4)?,
                    remaining: items.maybe(5)?.map(Duration::from_millis),
                })
            }
            "unset" => Inspected::Unset,
            "more" => Inspected::More,
            _ => return other(&items, self.kind),
        })
    }
}

/// `pool/holds.lua`.
pub(crate) struct HoldsScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
    pub(crate) from: usize,
    pub(crate) count: usize,
}

impl HoldsScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        ScriptCall::new(&HOLDS, self.key)
            .key(self.key.as_str())
            .key(self.key.part("d"))
            .arg(self.kind)
            .arg(self.from.to_string())
            .arg(self.count.to_string())
    }

    /// Returns the number of examined holds, and the living ones among them.
    pub(crate) fn decode(&self, reply: &Value) -> Result<(usize, Vec<Hold>), Error> {
        let items = Items::new(&HOLDS, reply)?;
        if items.text(1).is_ok_and(|verdict| verdict == "kind") {
            return other(&items, self.kind);
        }
        let hold = |at: usize| {
            Ok(Hold {
                id: items.text(at)?.to_owned(),
                permits: items.number(at + 1)?,
                remaining: Duration::from_millis(items.number(at + 2)?),
            })
        };
        let holds: Result<_, Error> = (2..items.len()).step_by(3).map(hold).collect();
        Ok((items.number(1)?, holds?))
    }
}

/// `pool/look.lua`.
pub(crate) struct LookScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a str,
}

impl LookScript<'_> {
    pub(crate) fn call(&self, holds: &[String]) -> ScriptCall {
        let call = ScriptCall::new(&LOOK, self.key)
            .key(self.key.as_str())
            .arg(self.kind);
        holds.iter().fold(call, ScriptCall::arg)
    }

    /// Returns the remaining time of each; zero if it is over or unknown.
    pub(crate) fn decode(&self, reply: &Value) -> Result<Vec<Duration>, Error> {
        let items = Items::new(&LOOK, reply)?;
        if items.text(1).is_ok_and(|verdict| verdict == "kind") {
            return other(&items, self.kind);
        }
        let left = |at| Ok(Duration::from_millis(items.number(at)?));
        (1..items.len()).map(left).collect()
    }
}
