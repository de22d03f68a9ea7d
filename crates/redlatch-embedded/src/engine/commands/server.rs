//! The commands on the server and on connections to it.

use redlatch_core::{
    family::is_match,
    runtime::{Reply, ServerError, Value},
};

use crate::engine::{
    Condition,
    call::{Call, bulk, bulk_or_nil, error, lower, no_subcommand, ok, syntax},
    core::Core,
};

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
    match (&*lower(args[1]), args.len()) {
        ("id", 2) => {
            let id = i64::try_from(call.session.0).unwrap_or(i64::MAX);
            Ok(Value::Int(id))
        }
        ("getname", 2) => {
            let session = call.core.sessions.get(&call.session);
            let name = session.and_then(|session| session.name.as_deref());
            Ok(bulk_or_nil(name.map(str::as_bytes)))
        }
        ("setname", 3) => set_name(call),
        _ => Err(no_subcommand(model, args, &["id", "getname", "setname"])),
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

pub(in crate::engine) fn time(call: &mut Call<'_>) -> Reply {
    let micros = call.clock.now.micros();
    let parts = [micros / 1_000_000, micros % 1_000_000];
    Ok(Value::Array(
        parts.map(|part| bulk(part.to_string().as_bytes())).into(),
    ))
}

pub(in crate::engine) fn wait(call: &mut Call<'_>) -> Reply {
    if call.core.is(Condition::ReadOnly) {
        return Err(error(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    call.int(1)?;
    let Ok(timeout) = call.int(2) else {
        return Err(error("ERR timeout is not an integer or out of range"));
    };
    if timeout < 0 {
        return Err(error("ERR timeout is negative"));
    }
    Ok(Value::Int(i64::from(call.core.replicas)))
}

pub(in crate::engine) fn role(call: &mut Call<'_>) -> Reply {
    let (zero, none) = (Value::Int(0), Value::Array(Vec::new()));
    Ok(Value::Array(match call.core.is(Condition::ReadOnly) {
        true => {
            let (role, host, link) = (bulk(b"slave"), bulk(b"127.0.0.1"), bulk(b"connected"));
            vec![role, host, zero.clone(), link, zero]
        }
        false => vec![bulk(b"master"), zero, none],
    }))
}

pub(in crate::engine) fn cluster(_: &mut Call<'_>) -> Reply {
    Err(error("ERR This instance has cluster support disabled"))
}

pub(in crate::engine) fn config(call: &mut Call<'_>) -> Reply {
    let (model, args) = (call.model(), call.args);
    match (&*lower(args[1]), args.len()) {
        ("get", 3..) => {
            let patterns: Vec<_> = args[2..].iter().map(|arg| lower(arg)).collect();
            let is_hit = |name: &str| {
                let mut patterns = patterns.iter().map(String::as_bytes);
                patterns.any(|pattern| is_match(pattern, name.as_bytes()))
            };
            let hits = call.core.config.iter().filter(|(name, _)| is_hit(name));
            let pairs =
                hits.flat_map(|(name, value)| [bulk(name.as_bytes()), bulk(value.as_bytes())]);
            Ok(Value::Array(pairs.collect()))
        }
        ("set", 4..) => set_config(call),
        _ => Err(no_subcommand(model, args, &["get", "set"])),
    }
}

pub(in crate::engine) fn info(call: &mut Call<'_>) -> Reply {
    let sections: Vec<_> = call.args[1..].iter().map(|arg| lower(arg)).collect();
    let wanted = |name: &str| {
        let all = ["all", "default", "everything", name];
        let mut sections = sections.iter().map(String::as_str);
        call.args.len() == 1 || sections.any(|section| all.contains(&section))
    };
    let core = &call.core;
    let version = core.model.version_info();
    let uptime = call.clock.now.since(core.started).as_secs();
    let (clients, replicas) = (core.sessions.len(), core.replicas);
    let policy = &core.config["maxmemory-policy"];
    let (used, limit) = (used_memory(core), maxmemory(core));
    let commands: u64 = core.counts.values().sum();
    let replica = core.is(Condition::ReadOnly);
    let role = if replica { "slave" } else { "master" };
    let fields = [
        format!("{version}redis_mode:standalone\r\nuptime_in_seconds:{uptime}\r\n"),
        format!("connected_clients:{clients}\r\n"),
        format!("used_memory:{used}\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"),
        format!("total_commands_processed:{commands}\r\n"),
        format!("role:{role}\r\nconnected_slaves:{replicas}\r\n"),
        "cluster_enabled:0\r\n".to_owned(),
    ];
    let titles = "Server Clients Memory Stats Replication Cluster".split(' ');
    let all = titles.zip(fields);
    let shown = all.filter(|(title, _)| wanted(&title.to_lowercase()));
    let text = shown.map(|(title, fields)| format!("# {title}\r\n{fields}"));
    Ok(bulk(text.collect::<Vec<_>>().join("\r\n").as_bytes()))
}

/// Returns the parameter `maxmemory`, with zero for no limit.
pub(in crate::engine) fn maxmemory(core: &Core) -> usize {
    core.config["maxmemory"].parse().unwrap_or(0)
}

/// Estimates the bytes in use, including a constant for the server itself.
pub(in crate::engine) fn used_memory(core: &Core) -> usize {
    core.data.size() + SERVER_ITSELF
}

fn set_config(call: &mut Call<'_>) -> Reply {
    let pairs = &call.args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(syntax());
    }
    let mut changes = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let (name, value) = (lower(pair[0]), String::from_utf8_lossy(pair[1]));
        let Some((&name, _)) = call.core.config.get_key_value(&*name) else {
            return Err(unknown_parameter(call, pair[0]));
        };
        if name == "maxmemory" && value.parse::<u64>().is_err() {
            return Err(no_memory_value(call, &value));
        }
        changes.push((name, value.into_owned()));
    }
    call.core.config.extend(changes);
    ok()
}

fn no_memory_value(call: &Call<'_>, value: &str) -> ServerError {
    error(&if call.model().is_seven() {
        "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value".to_owned()
    } else {
        format!(
            "ERR Invalid argument '{value}' for CONFIG SET 'maxmemory' - argument must be a memory value"
        )
    })
}

fn unknown_parameter(call: &Call<'_>, name: &[u8]) -> ServerError {
    let name = String::from_utf8_lossy(name);
    error(&if call.model().is_seven() {
        format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
    } else {
        format!("ERR Unsupported CONFIG parameter: {name}")
    })
}

/// The memory of an empty server in bytes. With it, `CONFIG SET maxmemory 1` makes the server full,
/// as it does with a real one.
const SERVER_ITSELF: usize = 1_000_000;
