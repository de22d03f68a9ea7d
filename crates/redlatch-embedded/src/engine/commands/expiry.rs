//! `EXPIRE`, `PEXPIRE`, `PEXPIREAT`, `TTL`, `PTTL`, `PERSIST`.

use redlatch_core::runtime::{Reply, ServerError, Value};

use crate::engine::{
    call::{Call, error, flag, is},
    keyspace::Entry,
};

pub(in crate::engine) fn expire(call: &mut Call<'_>) -> Reply {
    expire_in(call, 1000)
}

pub(in crate::engine) fn pexpire(call: &mut Call<'_>) -> Reply {
    expire_in(call, 1)
}

pub(in crate::engine) fn pexpireat(call: &mut Call<'_>) -> Reply {
    let at = call.int(2);
    expire_at(call, at)
}

pub(in crate::engine) fn ttl(call: &mut Call<'_>) -> Reply {
    Ok(Value::Int(match remaining(call) {
        rest if rest < 0 => rest,
        rest => (rest + 500) / 1000,
    }))
}

pub(in crate::engine) fn pttl(call: &mut Call<'_>) -> Reply {
    Ok(Value::Int(remaining(call)))
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

fn expire_in(call: &mut Call<'_>, unit: i64) -> Reply {
    let at = call
        .int(2)
        .and_then(|span| deadline(call, span, unit).ok_or_else(|| call.invalid_expire()));
    expire_at(call, at)
}

/// Sets the expiry to `at` if the options allow it. The options are read before `at` is checked, as
/// servers do.
fn expire_at(call: &mut Call<'_>, at: Result<i64, ServerError>) -> Reply {
    let options = Options::parse(&call.args[3..])?;
    let at = at?;
    let now = call.clock.now.millis();
    let Some(entry) = call.entry(call.key()) else {
        return Ok(flag(false));
    };
    if !options.allow(entry, at) {
        return Ok(flag(false));
    }
    match u64::try_from(at) {
        Ok(at) if at > now => entry.expires = Some(at),
        _ => {
            call.core.data.remove(call.key());
        }
    }
    Ok(flag(true))
}

/// Returns the remaining time of the first key in milliseconds: -1 for a key without expiry, -2 for
/// a missing key.
fn remaining(call: &mut Call<'_>) -> i64 {
    let now = call.clock.now.millis();
    match call.entry(call.key()) {
        None => -2,
        Some(Entry { expires: None, .. }) => -1,
        Some(Entry {
            expires: Some(at), ..
        }) => i64::try_from(at.saturating_sub(now)).unwrap_or(i64::MAX),
    }
}

/// The options of the `EXPIRE` family.
#[derive(Default)]
struct Options {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_sooner: bool,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Self, ServerError> {
        let mut options = Self::default();
        for arg in args {
            let option = match arg {
                _ if is(arg, "NX") => &mut options.if_none,
                _ if is(arg, "XX") => &mut options.if_some,
                _ if is(arg, "GT") => &mut options.if_later,
                _ if is(arg, "LT") => &mut options.if_sooner,
                _ => {
                    let arg = String::from_utf8_lossy(arg);
                    return Err(error(&format!("ERR Unsupported option {arg}")));
                }
            };
            *option = true;
        }
        if options.if_none && (options.if_some || options.if_later || options.if_sooner) {
            return Err(error(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if options.if_later && options.if_sooner {
            return Err(error(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(options)
    }

    /// Tells whether `entry` may get the expiry `at`. A key without expiry counts as one with an
    /// infinite expiry.
    fn allow(&self, entry: &Entry, at: i64) -> bool {
        let current = entry
            .expires
            .map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        !(self.if_none && current.is_some()
            || self.if_some && current.is_none()
            || self.if_later && current.is_none_or(|current| at <= current)
            || self.if_sooner && current.is_some_and(|current| at >= current))
    }
}
