//! `SCAN` and `HSCAN`. Both return all items in one reply, which their contract allows.

use redlatch_core::runtime::{Reply, ServerError, Value};

use crate::engine::{
    Model,
    call::{Call, bulk, error, is, not_an_integer, syntax},
    glob, number,
};

pub(in crate::engine) fn scan(call: &mut Call<'_>) -> Reply {
    check_cursor(call.model(), call.args[1])?;
    let options = Options::parse(&call.args[2..], Types::Allowed)?;
    let all = call.core.data.iter(call.clock.expiry);
    let hits = all.filter(|(key, entry)| {
        options.matches(key)
            && options
                .kind
                .is_none_or(|kind| is(kind, entry.object.type_name()))
    });
    Ok(page(hits.map(|(key, _)| bulk(key)).collect()))
}

pub(in crate::engine) fn hscan(call: &mut Call<'_>) -> Reply {
    check_cursor(call.model(), call.args[2])?;
    let args = call.args;
    let Some(hash) = call.hash()? else {
        return Ok(page(Vec::new()));
    };
    let options = Options::parse(&args[3..], Types::Refused)?;
    let hits = hash.iter().filter(|(field, _)| options.matches(field));
    Ok(page(
        hits.flat_map(|(field, value)| [bulk(field), bulk(value)])
            .collect(),
    ))
}

/// Checks that a cursor is a number, in a spelling that the parser of this server accepts.
///
/// Every number is a valid cursor, because every reply holds all items.
fn check_cursor(model: Model, cursor: &[u8]) -> Result<(), ServerError> {
    let is_valkey = model == Model::Valkey9_1;
    let negative = is_valkey && number::parse_int(cursor).is_some_and(|number| number < 0);
    let digits = if is_valkey {
        cursor.trim_ascii_start()
    } else {
        cursor
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

fn page(items: Vec<Value>) -> Value {
    Value::Array(vec![bulk(b"0"), Value::Array(items)])
}

#[derive(PartialEq)]
enum Types {
    Allowed,
    Refused,
}

#[derive(Default)]
struct Options<'a> {
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]], types: Types) -> Result<Self, ServerError> {
        let mut options = Self::default();
        for pair in args.chunks(2) {
            let [name, value] = *pair else {
                return Err(syntax());
            };
            if is(name, "MATCH") {
                options.pattern = Some(value);
            } else if is(name, "COUNT") {
                let count = number::parse_int(value).ok_or_else(not_an_integer)?;
                if count < 1 {
                    return Err(syntax());
                }
            } else if is(name, "TYPE") && types == Types::Allowed {
                options.kind = Some(value);
            } else {
                return Err(syntax());
            }
        }
        Ok(options)
    }

    fn matches(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, name))
    }
}
