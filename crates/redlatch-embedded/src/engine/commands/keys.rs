//! `DEL`, `UNLINK`, `EXISTS`, `TYPE`, `KEYS`, `DBSIZE`, `FLUSHALL`, `FLUSHDB`.

use redlatch_core::runtime::{Reply, Value};

use crate::engine::{
    call::{Call, bulk, count, is, ok, syntax},
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
    let args = call.args;
    Ok(count(
        args[1..]
            .iter()
            .filter(|key| call.entry(key).is_some())
            .count(),
    ))
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

pub(in crate::engine) fn dbsize(call: &mut Call<'_>) -> Reply {
    Ok(count(call.core.data.iter(call.clock.expiry).count()))
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
