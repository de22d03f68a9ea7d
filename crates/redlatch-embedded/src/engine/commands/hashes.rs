//! The commands on hashes.

use redlatch_core::runtime::{Reply, Value};

use crate::engine::call::{Call, bulk, bulk_or_nil, count, error, sum};

pub(in crate::engine) fn hget(call: &mut Call<'_>) -> Reply {
    let field = call.args[2];
    Ok(bulk_or_nil(call.hash()?.and_then(|hash| hash.get(field))))
}

pub(in crate::engine) fn hmget(call: &mut Call<'_>) -> Reply {
    let fields = &call.args[2..];
    let hash = call.hash()?.map(|hash| &*hash);
    let values = fields
        .iter()
        .map(|field| bulk_or_nil(hash.and_then(|hash| hash.get(field))));
    Ok(Value::Array(values.collect()))
}

pub(in crate::engine) fn hset(call: &mut Call<'_>) -> Reply {
    let pairs = &call.args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let hash = call.hash_or_new()?;
    let new = pairs
        .chunks_exact(2)
        .filter(|pair| hash.set(pair[0], pair[1].to_vec()))
        .count();
    Ok(count(new))
}

pub(in crate::engine) fn hincrby(call: &mut Call<'_>) -> Reply {
    let (field, by) = (call.args[2], call.int(3)?);
    let old = call.hash()?.and_then(|hash| hash.get(field));
    let sum = sum(old, by, || error("ERR hash value is not an integer"))?;
    call.hash_or_new()?.set(field, sum.to_string().into_bytes());
    Ok(Value::Int(sum))
}

pub(in crate::engine) fn hdel(call: &mut Call<'_>) -> Reply {
    let fields = call.args[2..].iter();
    let hash = call.hash()?;
    let gone = hash.map_or(0, |hash| fields.filter(|field| hash.remove(field)).count());
    call.drop_if_empty();
    Ok(count(gone))
}

pub(in crate::engine) fn hgetall(call: &mut Call<'_>) -> Reply {
    let fields = call.hash()?.into_iter().flat_map(|hash| hash.iter());
    let items = fields.flat_map(|(field, value)| [bulk(field), bulk(value)]);
    Ok(Value::Array(items.collect()))
}
