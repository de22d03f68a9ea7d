//! `GET`, `SET`, `STRLEN`, `APPEND` and the counters.

use redlatch_core::runtime::{Reply, ServerError, Value};

use super::expiry::deadline;
use crate::engine::{
    call::{Call, bulk, count, error, is, not_an_integer, ok, syntax, wrong_type},
    keyspace::{Entry, Object},
    number,
};

pub(in crate::engine) fn get(call: &mut Call<'_>) -> Reply {
    Ok(call.string()?.map_or(Value::Nil, |text| bulk(text)))
}

pub(in crate::engine) fn strlen(call: &mut Call<'_>) -> Reply {
    Ok(count(call.string()?.map_or(0, |text| text.len())))
}

pub(in crate::engine) fn append(call: &mut Call<'_>) -> Reply {
    let tail = call.args[2];
    if let Some(text) = call.string()? {
        text.extend_from_slice(tail);
        return Ok(count(text.len()));
    }
    call.core
        .data
        .insert(call.key(), Entry::new(Object::String(tail.to_vec())));
    Ok(count(tail.len()))
}

pub(in crate::engine) fn incr(call: &mut Call<'_>) -> Reply {
    add(call, 1)
}

pub(in crate::engine) fn decr(call: &mut Call<'_>) -> Reply {
    add(call, -1)
}

pub(in crate::engine) fn incrby(call: &mut Call<'_>) -> Reply {
    let by = call.int(2)?;
    add(call, by)
}

pub(in crate::engine) fn decrby(call: &mut Call<'_>) -> Reply {
    let by = call.int(2)?;
    if by == i64::MIN && call.model().is_seven() {
        return Err(error("ERR decrement would overflow"));
    }
    // On older servers the negation wraps.
    let by = by.wrapping_neg();
    add(call, by)
}

pub(in crate::engine) fn set(call: &mut Call<'_>) -> Reply {
    let options = SetOptions::parse(call)?;
    let expires = options.expires(call)?;
    let old = match call.entry(call.key()) {
        None => None,
        Some(Entry {
            object: Object::String(text),
            ..
        }) => Some(Some(bulk(text))),
        Some(_) if options.get => return Err(wrong_type()),
        Some(_) => Some(None),
    };
    let refused = options.if_absent && old.is_some() || options.if_present && old.is_none();
    let kept = call
        .core
        .data
        .get(call.key())
        .and_then(|entry| entry.expires);
    if !refused {
        let expires = if options.keep_ttl { kept } else { expires };
        let object = Object::String(call.args[2].to_vec());
        call.core.data.insert(call.key(), Entry { object, expires });
    }
    if options.get {
        return Ok(old.flatten().unwrap_or(Value::Nil));
    }
    if refused { Ok(Value::Nil) } else { ok() }
}

fn add(call: &mut Call<'_>, by: i64) -> Reply {
    let old = match call.string()? {
        None => 0,
        Some(text) => number::parse_int(text).ok_or_else(not_an_integer)?,
    };
    let sum = old.checked_add(by);
    let sum = sum.ok_or_else(|| error("ERR increment or decrement would overflow"))?;
    let text = sum.to_string().into_bytes();
    match call.string()? {
        Some(old) => *old = text,
        None => call
            .core
            .data
            .insert(call.key(), Entry::new(Object::String(text))),
    }
    Ok(Value::Int(sum))
}

/// The options of `SET`.
#[derive(Default)]
struct SetOptions<'a> {
    if_absent: bool,
    if_present: bool,
    keep_ttl: bool,
    get: bool,
    /// The argument of the option, and the option. The same option may occur twice; the last one
    /// counts.
    expiry: Option<(&'a [u8], ExpiryKind)>,
}

impl<'a> SetOptions<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, ServerError> {
        let mut options = Self::default();
        let mut args = call.args[3..].iter();
        while let Some(arg) = args.next() {
            if is(arg, "NX") && !options.if_present {
                options.if_absent = true;
            } else if is(arg, "XX") && !options.if_absent {
                options.if_present = true;
            } else if is(arg, "GET") {
                options.get = true;
            } else if is(arg, "KEEPTTL") && options.expiry.is_none() {
                options.keep_ttl = true;
            } else if let Some(kind) = ExpiryKind::parse(arg)
                && !options.keep_ttl
                && options.expiry.is_none_or(|(_, other)| other == kind)
            {
                options.expiry = Some((args.next().ok_or_else(syntax)?, kind));
            } else {
                return Err(syntax());
            }
        }
        if options.get && options.if_absent && !call.model().is_seven() {
            return Err(syntax());
        }
        Ok(options)
    }

    fn expires(&self, call: &Call<'_>) -> Result<Option<u64>, ServerError> {
        let Some((arg, ExpiryKind { unit, instant })) = self.expiry else {
            return Ok(None);
        };
        let number = number::parse_int(arg).ok_or_else(not_an_integer)?;
        let at = if number <= 0 {
            None
        } else if instant {
            number.checked_mul(unit)
        } else {
            deadline(call, number, unit)
        };
        let at = at.and_then(|at| u64::try_from(at).ok());
        at.map(Some).ok_or_else(|| call.invalid_expire())
    }
}

/// The form in which an expiry is given.
#[derive(Clone, Copy, PartialEq)]
struct ExpiryKind {
    /// The unit in milliseconds.
    unit: i64,
    /// Whether the argument is an instant rather than a span.
    instant: bool,
}

impl ExpiryKind {
    fn parse(arg: &[u8]) -> Option<Self> {
        let names = [
            ("PX", 1, false),
            ("EX", 1000, false),
            ("PXAT", 1, true),
            ("EXAT", 1000, true),
        ];
        let found = names.iter().find(|(name, ..)| is(arg, name));
        found.map(|&(_, unit, instant)| Self { unit, instant })
    }
}
