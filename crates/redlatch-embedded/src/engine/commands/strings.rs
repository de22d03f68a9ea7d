//! `GET`, `SET` and the counters.

use redlatch_core::runtime::{Reply, ServerError, Value};

use super::keys::deadline;
use crate::engine::{
    call::{Call, bulk, error, is, not_an_integer, ok, sum, syntax},
    keyspace::{Entry, Object},
    number,
};

pub(in crate::engine) fn get(call: &mut Call<'_>) -> Reply {
    Ok(call.string()?.map_or(Value::Nil, |text| bulk(text)))
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
    let exists = call.entry(call.key()).is_some();
    if exists && options.if_absent || !exists && options.if_present {
        return Ok(Value::Nil);
    }
    let object = Object::String(call.args[2].to_vec());
    call.core.data.insert(call.key(), Entry { object, expires });
    ok()
}

fn add(call: &mut Call<'_>, by: i64) -> Reply {
    let old = call.string()?.map(|text| &text[..]);
    let sum = sum(old, by, not_an_integer)?;
    let text = sum.to_string().into_bytes();
    *call.object_or(|| Object::String(Vec::new())) = Object::String(text);
    Ok(Value::Int(sum))
}

/// The options of `SET`.
#[derive(Default)]
struct SetOptions<'a> {
    if_absent: bool,
    if_present: bool,
    /// The argument of the option, and its unit in milliseconds. The same option may occur twice;
    /// the last one counts.
    expiry: Option<(&'a [u8], i64)>,
}

impl<'a> SetOptions<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, ServerError> {
        let mut options = Self::default();
        let mut args = call.args[3..].iter();
        while let Some(arg) = args.next() {
            let unit = [("PX", 1), ("EX", 1000)];
            let unit = unit.into_iter().find(|(name, _)| is(arg, name));
            if is(arg, "NX") && !options.if_present {
                options.if_absent = true;
            } else if is(arg, "XX") && !options.if_absent {
                options.if_present = true;
            } else if let Some((_, unit)) = unit
                && options.expiry.is_none_or(|(_, other)| other == unit)
            {
                options.expiry = Some((args.next().ok_or_else(syntax)?, unit));
            } else {
                return Err(syntax());
            }
        }
        Ok(options)
    }

    fn expires(&self, call: &Call<'_>) -> Result<Option<u64>, ServerError> {
        let Some((arg, unit)) = self.expiry else {
            return Ok(None);
        };
        let span = number::parse_int(arg).ok_or_else(not_an_integer)?;
        let at = (span > 0).then(|| deadline(call, span, unit)).flatten();
        let at = at.and_then(|at| u64::try_from(at).ok());
        at.map(Some).ok_or_else(|| call.invalid_expire())
    }
}
