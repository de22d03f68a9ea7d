//! The commands on keys of any type, and `HSCAN`.

use redlatch_core::{
    family::is_match,
    runtime::{Reply, ServerError, Value},
};

use crate::engine::{
    Model,
    call::{Call, bulk, count, error, flag, is, not_an_integer, ok, syntax},
    keyspace::{Entry, Keyspace},
    number,
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
    let hits = all.filter(|(key, _): &(&[u8], &Entry)| is_match(pattern, key));
    Ok(Value::Array(hits.map(|(key, _)| bulk(key)).collect()))
}

pub(in crate::engine) fn flush(call: &mut Call<'_>) -> Reply {
    match call.args {
        [_] => {}
        [_, how] if is(how, "ASYNC") || is(how, "SYNC") => {}
        _ => return Err(syntax()),
    }
    call.core.data = Keyspace::default();
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

/// Runs `SCAN`. It returns all items in one reply, which its contract allows, as does [`hscan`].
pub(in crate::engine) fn scan(call: &mut Call<'_>) -> Reply {
    check_cursor(call.model(), call.args[1])?;
    let pattern = pattern(&call.args[2..])?;
    let all = call.core.data.iter(call.clock.expiry).map(|(key, _)| key);
    Ok(page(all.filter(|key| is_match(pattern, key)).map(bulk)))
}

pub(in crate::engine) fn hscan(call: &mut Call<'_>) -> Reply {
    check_cursor(call.model(), call.args[2])?;
    let args = call.args;
    let Some(hash) = call.hash()? else {
        return Ok(page(std::iter::empty()));
    };
    let pattern = pattern(&args[3..])?;
    let hits = hash.iter().filter(|(field, _)| is_match(pattern, field));
    Ok(page(
        hits.flat_map(|(field, value)| [bulk(field), bulk(value)]),
    ))
}

/// Checks that a cursor is a number, in a spelling that the parser of this server accepts.
///
/// Every number is a valid cursor, because every reply holds all items.
fn check_cursor(model: Model, cursor: &[u8]) -> Result<(), ServerError> {
    let is_valkey = model == Model::Valkey9_1;
    let negative = is_valkey && number::parse_int(cursor).is_some_and(|number| number < 0);
    let digits = match is_valkey {
        true => cursor.trim_ascii_start(),
        false => cursor,
    };
    let digits = match digits {
        [b'+' | b'-', digits @ ..] if !digits.is_empty() => digits,
        digits => digits,
    };
    let text = std::str::from_utf8(digits).unwrap_or("x");
    let is_number = text.parse::<u64>().is_ok() && digits[0].is_ascii_digit();
    if !negative && (is_number || !is_valkey && digits.is_empty()) {
        return Ok(());
    }
    Err(error("ERR invalid cursor"))
}

fn page(items: impl Iterator<Item = Value>) -> Value {
    Value::Array(vec![bulk(b"0"), Value::Array(items.collect())])
}

/// Reads the options. Returns the pattern of the names to show.
fn pattern<'a>(args: &[&'a [u8]]) -> Result<&'a [u8], ServerError> {
    let mut pattern: &[u8] = b"*";
    for pair in args.chunks(2) {
        match *pair {
            [name, value] if is(name, "MATCH") => pattern = value,
            [name, value] if is(name, "COUNT") => {
                if number::parse_int(value).ok_or_else(not_an_integer)? < 1 {
                    return Err(syntax());
                }
            }
            _ => return Err(syntax()),
        }
    }
    Ok(pattern)
}

/// Returns the millisecond at which a span ends; `None` if it is beyond the range of the clock.
pub(super) fn deadline(call: &Call<'_>, span: i64, unit: i64) -> Option<i64> {
    let now = i64::try_from(call.clock.now.millis()).ok()?;
    span.checked_mul(unit)?.checked_add(now)
}
