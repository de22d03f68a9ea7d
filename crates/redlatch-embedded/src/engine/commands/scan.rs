//! `SCAN` and `HSCAN`. Both return all items in one reply, which their contract allows.

use redlatch_core::runtime::{Reply, ServerError, Value};

use crate::engine::{
    Model,
    call::{Call, bulk, error, is, not_an_integer, syntax},
    glob, number,
};

pub(in crate::engine) fn scan(call: &mut Call<'_>) -> Reply {
    check_cursor(call.model(), call.args[1])?;
    let pattern = pattern(&call.args[2..])?;
    let all = call.core.data.iter(call.clock.expiry).map(|(key, _)| key);
    Ok(page(
        all.filter(|key| glob::matches(pattern, key)).map(bulk),
    ))
}

pub(in crate::engine) fn hscan(call: &mut Call<'_>) -> Reply {
    check_cursor(call.model(), call.args[2])?;
    let args = call.args;
    let Some(hash) = call.hash()? else {
        return Ok(page(std::iter::empty()));
    };
    let pattern = pattern(&args[3..])?;
    let hits = hash
        .iter()
        .filter(|(field, _)| glob::matches(pattern, field));
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
