//! `PING`, `SELECT`, `CLIENT`.

use redlatch_core::runtime::{Reply, Value};

use crate::engine::call::{Call, bulk, bulk_or_nil, error, is, ok, unknown_subcommand, want};

pub(in crate::engine) fn ping(call: &mut Call<'_>) -> Reply {
    match call.args {
        [_] => Ok(Value::Status("PONG".to_owned())),
        [_, text] => Ok(bulk(text)),
        _ => Err(call.wrong_arity()),
    }
}

pub(in crate::engine) fn select(call: &mut Call<'_>) -> Reply {
    match call.int(1)? {
        0 => ok(),
        _ => Err(error("ERR DB index is out of range")),
    }
}

pub(in crate::engine) fn client(call: &mut Call<'_>) -> Reply {
    let (model, args) = (call.model(), call.args);
    let sub = args[1];
    if is(sub, "ID") {
        want(model, args, args.len() == 2)?;
        let id = i64::try_from(call.session.0).unwrap_or(i64::MAX);
        Ok(Value::Int(id))
    } else if is(sub, "GETNAME") {
        want(model, args, args.len() == 2)?;
        let session = call.core.sessions.get(&call.session);
        let name = session.and_then(|session| session.name.as_deref());
        Ok(bulk_or_nil(name.map(str::as_bytes)))
    } else if is(sub, "SETNAME") {
        want(model, args, args.len() == 3)?;
        set_name(call)
    } else {
        Err(unknown_subcommand(model, args))
    }
}

fn set_name(call: &mut Call<'_>) -> Reply {
    let name = call.args[2];
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(error(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    if let Some(session) = call.core.sessions.get_mut(&call.session) {
        let name = String::from_utf8_lossy(name).into_owned();
        session.name = (!name.is_empty()).then_some(name);
    }
    ok()
}
