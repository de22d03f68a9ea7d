//! The scripts of the latch. No other file knows the order of their keys and arguments.

use std::time::Duration;

use redlatch_core::{
    Error, Token,
    family::{AttemptId, Items, Key, PUBLISH, PhaseState, REMEMBERED, Script, ScriptCall, millis},
};
use redlatch_lua::LATCH;

use crate::LatchInfo;

/// Calls `latch/set.lua`.
pub(crate) fn set(key: &Key, op: &AttemptId, count: u32, ttl: Option<Duration>) -> ScriptCall {
    change(&LATCH.set, key, op)
        .arg(count)
        .maybe(ttl.map(millis))
        .arg(millis(REMEMBERED))
}

/// Returns true if this call or an earlier copy of it set the latch.
pub(crate) fn was_set(items: &Items<'_>) -> Result<bool, Error> {
    Ok(match items.text(1)? {
        "set" => true,
        "refused" => false,
        _ => return items.other(STORED),
    })
}

/// Calls `latch/count_down.lua`.
pub(crate) fn count_down(key: &Key, op: &AttemptId, n: u32) -> ScriptCall {
    change(&LATCH.count_down, key, op)
        .arg(n)
        .arg(millis(REMEMBERED))
        .arg(PUBLISH)
        .arg(key.broadcast_channel())
}

/// The result of `latch/count_down.lua`.
pub(crate) enum Counted {
    /// It has counted. `generation` is known unless a later one has begun.
    Left { left: u32, generation: Option<u64> },
    /// It had counted, and the latch was deleted since.
    Deleted,
    /// There is no latch.
    Unset,
}

pub(crate) fn counted(items: &Items<'_>) -> Result<Counted, Error> {
    Ok(match items.text(1)? {
        "counted" => Counted::Left {
            left: items.number(2)?,
            generation: items.maybe(3)?,
        },
        "deleted" => Counted::Deleted,
        "unset" => Counted::Unset,
        _ => return items.other(STORED),
    })
}

/// Calls `latch/delete.lua`, which keeps a trace for that long.
pub(crate) fn delete(key: &Key, op: &AttemptId, trace: Duration) -> ScriptCall {
    change(&LATCH.delete, key, op)
        .arg(millis(REMEMBERED))
        .arg(millis(trace))
        .arg(PUBLISH)
        .arg(key.broadcast_channel())
}

/// Returns true if this call or an earlier copy of it removed a latch.
pub(crate) fn deleted(items: &Items<'_>) -> Result<bool, Error> {
    Ok(match items.text(1)? {
        "deleted" => true,
        "unset" => false,
        _ => return items.other(STORED),
    })
}

/// The result of `latch/look.lua`.
pub(crate) struct Looked {
    /// The states of the requested generations, in order.
    pub(crate) states: Vec<(u64, PhaseState)>,
    pub(crate) present: Option<LatchInfo>,
}

/// Calls `latch/look.lua`.
pub(crate) fn look(key: &Key, generations: &[u64]) -> ScriptCall {
    ScriptCall::new(&LATCH.look, key).args(generations)
}

/// Reads the latch called `name`.
pub(crate) fn looked(name: &str, items: &Items<'_>, generations: &[u64]) -> Result<Looked, Error> {
    let present = match items.text(1)? {
        "set" => {
            let (now, generation): (u64, u64) = (items.number(0)?, items.number(2)?);
            Some(LatchInfo {
                name: name.to_owned(),
                count: items.number(3)?,
                initial: items.number(4)?,
                generation: Token::from_u64(generation),
                age: Duration::from_millis(now.saturating_sub(generation / 1000)),
                remaining: items.maybe_span(5)?,
            })
        }
        "unset" => None,
        _ => return items.other(STORED),
    };
    let states = generations.iter().zip(6..);
    let states = states.map(|(&generation, at)| Ok((generation, state(items, at)?)));
    Ok(Looked {
        states: states.collect::<Result<_, Error>>()?,
        present,
    })
}

/// Starts a call that changes the latch at `key`. The part `o` remembers the operations that have
/// run.
fn change(script: &'static Script, key: &Key, op: &AttemptId) -> ScriptCall {
    let call = ScriptCall::new(script, key).dated();
    call.key(key.part("o")).arg(op)
}

fn state(items: &Items<'_>, at: usize) -> Result<PhaseState, Error> {
    Ok(match items.text(at)? {
        "open" => PhaseState::Over,
        "shut" => PhaseState::UnderWay,
        "deleted" => PhaseState::Gone,
        _ => return Err(items.bad()),
    })
}

/// The kind as the server stores it.
const STORED: &str = "latch:1";

#[cfg(test)]
mod tests {
    use redlatch_core::runtime::Value;

    use super::*;

    mod replies {
        include!("../../redlatch-core/src/runtime/tests/replies.rs");
    }

    #[test]
    fn any_reply_is_decoded_or_refused() {
        use replies::reads_anything;

        reads_anything(&LATCH.set, &["set", "refused", "kind"], was_set);
        let words = ["counted", "deleted", "unset", "kind"];
        reads_anything(&LATCH.count_down, &words, counted);
        reads_anything(&LATCH.delete, &["deleted", "unset", "kind"], deleted);
        let words = ["set", "unset", "kind", "open", "shut", "deleted"];
        for generations in [&[][..], &[7]] {
            reads_anything(&LATCH.look, &words, |items| looked("n", items, generations));
        }
    }
}
