//! The commands on keys of any type.

use redlatch_core::runtime::{Reply, Value};

use crate::engine::{
    call::{Call, bulk, count, flag, is, ok, syntax},
    glob,
    keyspace::Entry,
};

pub(in crate::engine) fn del(call: &mut Call<'_>) -> Reply {
    let mut gone = 0;
    for key in &call.args[1..] {
        if call.entry(key).is_some() {
            call.core.data.remove(key);
            gone += 1;
        }
    }
    Ok(Value::Int(gone))
}

pub(in crate::engine) fn exists(call: &mut Call<'_>) -> Reply {
    let args = call.args[1..].iter();
    Ok(count(args.filter(|key| call.entry(key).is_some()).count()))
}

pub(in crate::engine) fn type_of(call: &mut Call<'_>) -> Reply {
    let name = call
        .entry(call.key())
        .map_or("none", |entry| entry.object.type_name());
    Ok(Value::Status(name.to_owned()))
}

pub(in crate::engine) fn keys(call: &mut Call<'_>) -> Reply {
    let pattern = call.args[1];
    let all = call.core.data.iter(call.clock.expiry);
    let hits = all.filter(|(key, _): &(&[u8], &Entry)| glob::matches(pattern, key));
    Ok(Value::Array(hits.map(|(key, _)| bulk(key)).collect()))
}

pub(in crate::engine) fn flush(call: &mut Call<'_>) -> Reply {
    match call.args {
        [_] => {}
        [_, how] if is(how, "ASYNC") || is(how, "SYNC") => {}
        _ => return Err(syntax()),
    }
    call.core.data.clear();
    ok()
}

pub(in crate::engine) fn pexpire(call: &mut Call<'_>) -> Reply {
    let at = deadline(call, call.int(2)?, 1).ok_or_else(|| call.invalid_expire())?;
    let now = call.clock.now.millis();
    let Some(entry) = call.entry(call.key()) else {
        return Ok(flag(false));
    };
    match u64::try_from(at) {
        Ok(at) if at > now => entry.expires = Some(at),
        _ => {
            call.core.data.remove(call.key());
        }
    }
    Ok(flag(true))
}

/// Returns the remaining time of the key in milliseconds: -1 for a key without expiry, -2 for a
/// missing key.
pub(in crate::engine) fn pttl(call: &mut Call<'_>) -> Reply {
    let now = call.clock.now.millis();
    let expires = call.entry(call.key()).map(|entry| entry.expires);
    Ok(Value::Int(match expires {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => i64::try_from(at.saturating_sub(now)).unwrap_or(i64::MAX),
    }))
}

pub(in crate::engine) fn persist(call: &mut Call<'_>) -> Reply {
    let had = call
        .entry(call.key())
        .and_then(|entry| entry.expires.take());
    Ok(flag(had.is_some()))
}

/// Returns the millisecond at which a span ends; `None` if it is beyond the range of the clock.
pub(super) fn deadline(call: &Call<'_>, span: i64, unit: i64) -> Option<i64> {
    let now = i64::try_from(call.clock.now.millis()).ok()?;
    span.checked_mul(unit)?.checked_add(now)
}
