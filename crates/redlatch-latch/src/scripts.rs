//! The scripts of the latch. No other file knows the order of their keys and arguments.

use std::{sync::LazyLock, time::Duration};

use redlatch_core::{
    Error,
    family::{
        AttemptId, Changed, Items, Key, PUBLISH, PhaseState, REMEMBERED, Script, ScriptCall, millis,
    },
    runtime::Value,
};
use redlatch_lua::LATCH;

static SET: LazyLock<Script> = LazyLock::new(|| Script::new(&LATCH.set));
static COUNT_DOWN: LazyLock<Script> = LazyLock::new(|| Script::new(&LATCH.count_down));
static DELETE: LazyLock<Script> = LazyLock::new(|| Script::new(&LATCH.delete));
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(&LATCH.look));

/// `latch/set.lua`.
pub(crate) struct SetScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) op: &'a AttemptId,
    pub(crate) count: u32,
    pub(crate) ttl: Option<Duration>,
}

impl SetScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        change(&SET, self.key)
            .arg(self.op.to_string())
            .arg(self.count.to_string())
            .maybe(self.ttl.map(millis))
            .arg(millis(REMEMBERED))
    }

    /// Returns true if this call or an earlier copy of it set the latch.
    pub(crate) fn decode(reply: &Value) -> Result<Changed<bool>, Error> {
        let items = Items::new(&SET, reply)?;
        Ok(match items.text(1)? {
            "set" => Changed::Done(true),
            "refused" => Changed::Done(false),
            _ => return other(&items),
        })
    }
}

/// `latch/count_down.lua`.
pub(crate) struct CountDownScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) op: &'a AttemptId,
    pub(crate) n: u32,
    pub(crate) channel: &'a str,
}

/// The result of `latch/count_down.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It has counted. `generation` is known unless a later one has begun.
    Left { left: u32, generation: Option<u64> },
    /// It had counted, and the latch was deleted since.
    Deleted,
    /// There is no latch.
    Unset,
}

impl CountDownScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        change(&COUNT_DOWN, self.key)
            .arg(self.op.to_string())
            .arg(self.n.to_string())
            .arg(millis(REMEMBERED))
            .arg(PUBLISH)
            .arg(self.channel)
    }

    pub(crate) fn decode(reply: &Value) -> Result<Changed<Counted>, Error> {
        let items = Items::new(&COUNT_DOWN, reply)?;
        Ok(Changed::Done(match items.text(1)? {
            "counted" => Counted::Left {
                left: items.number(2)?,
                generation: items.maybe(3)?,
            },
            "deleted" => Counted::Deleted,
            "unset" => Counted::Unset,
            _ => return other(&items),
        }))
    }
}

/// `latch/delete.lua`.
pub(crate) struct DeleteScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) op: &'a AttemptId,
    pub(crate) trace: Duration,
    pub(crate) channel: &'a str,
}

impl DeleteScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        change(&DELETE, self.key)
            .arg(self.op.to_string())
            .arg(millis(REMEMBERED))
            .arg(millis(self.trace))
            .arg(PUBLISH)
            .arg(self.channel)
    }

    /// Returns true if this call or an earlier copy of it removed a latch.
    pub(crate) fn decode(reply: &Value) -> Result<Changed<bool>, Error> {
        let items = Items::new(&DELETE, reply)?;
        Ok(match items.text(1)? {
            "deleted" => Changed::Done(true),
            "unset" => Changed::Done(false),
            _ => return other(&items),
        })
    }
}

/// `latch/look.lua`.
pub(crate) struct LookScript<'a> {
    pub(crate) key: &'a Key,
    pub(crate) generations: &'a [u64],
}

/// The result of `latch/look.lua`. The states are those of the requested generations, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    Set {
        now: u64,
        generation: u64,
        left: u32,
        initial: u32,
        remaining: Option<Duration>,
        states: Vec<(u64, PhaseState)>,
    },
    Unset {
        states: Vec<(u64, PhaseState)>,
    },
}

impl LookScript<'_> {
    pub(crate) fn call(&self) -> ScriptCall {
        let call = ScriptCall::new(&LOOK, self.key).key(self.key.as_str());
        self.generations
            .iter()
            .fold(call, |call, generation| call.arg(generation.to_string()))
    }

    pub(crate) fn decode(reply: &Value, generations: &[u64]) -> Result<Looked, Error> {
        let items = Items::new(&LOOK, reply)?;
        let states = || {
            let states = generations.iter().zip(6..);
            states
                .map(|(&generation, at)| Ok((generation, state(&items, at)?)))
                .collect::<Result<Vec<_>, Error>>()
        };
        Ok(match items.text(1)? {
            "set" => Looked::Set {
                now: items.number(0)?,
                generation: items.number(2)?,
                left: items.number(3)?,
                initial: items.number(4)?,
                remaining: items.maybe(5)?.map(Duration::from_millis),
                states: states()?,
            },
            "unset" => Looked::Unset { states: states()? },
            "kind" => return Err(wrong_kind(items.text(2)?)),
            _ => return Err(items.bad()),
        })
    }
}

/// Starts a call that changes the latch at `key`.
fn change(script: &'static Script, key: &Key) -> ScriptCall {
    ScriptCall::new(script, key)
        .dated()
        .key(key.as_str())
        .key(key.part(OPERATIONS))
}

fn wrong_kind(found: &str) -> Error {
    Error::wrong_kind(found, "latch:1")
}

/// The answers that all changes share.
fn other<R>(items: &Items<'_>) -> Result<Changed<R>, Error> {
    match items.text(1)? {
        "late" => Ok(Changed::Late),
        "kind" => Err(wrong_kind(items.text(2)?)),
        _ => Err(items.bad()),
    }
}

fn state(items: &Items<'_>, at: usize) -> Result<PhaseState, Error> {
    Ok(match items.text(at)? {
        "open" => PhaseState::Over,
        "shut" => PhaseState::UnderWay,
        "deleted" => PhaseState::Gone,
        _ => return Err(items.bad()),
    })
}

/// The part of a latch's key that remembers the operations that have run.
const OPERATIONS: &str = "o";

#[cfg(test)]
#[path = "../../redlatch-core/src/runtime/replies.rs"]
mod replies;

#[cfg(test)]
mod tests {
    use super::{replies::decodes_anything, *};

    #[test]
    fn any_reply_is_decoded_or_refused() {
        decodes_anything(&["set", "refused", "late", "kind"], SetScript::decode);
        decodes_anything(
            &["counted", "deleted", "unset", "late", "kind"],
            CountDownScript::decode,
        );
        decodes_anything(&["deleted", "unset", "late", "kind"], DeleteScript::decode);
        decodes_anything(
            &["set", "unset", "kind", "open", "shut", "deleted"],
            |reply| LookScript::decode(reply, &[]),
        );
        decodes_anything(
            &["set", "unset", "kind", "open", "shut", "deleted"],
            |reply| LookScript::decode(reply, &[7]),
        );
    }
}
