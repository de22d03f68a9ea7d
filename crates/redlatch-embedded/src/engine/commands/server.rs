//! `TIME`, `INFO`, `CONFIG`, `ROLE`, `WAIT`, `COMMAND`, `CLUSTER`.

use redlatch_core::runtime::{Reply, ServerError, Value};

use crate::engine::{
    Condition,
    call::{Call, bulk, count, error, is, lower, ok, syntax},
    core::Core,
    glob, slot, table,
};

pub(in crate::engine) fn time(call: &mut Call<'_>) -> Reply {
    let micros = call.clock.now.micros();
    let parts = [micros / 1_000_000, micros % 1_000_000];
    Ok(Value::Array(
        parts.map(|part| bulk(part.to_string().as_bytes())).into(),
    ))
}

pub(in crate::engine) fn wait(call: &mut Call<'_>) -> Reply {
    if call.core.conditions.has(Condition::ReadOnly) {
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
    if call.core.conditions.has(Condition::ReadOnly) {
        let master = [bulk(b"slave"), bulk(b"127.0.0.1"), Value::Int(0)];
        let link = [bulk(b"connected"), Value::Int(0)];
        return Ok(Value::Array(master.into_iter().chain(link).collect()));
    }
    Ok(Value::Array(vec![
        bulk(b"master"),
        Value::Int(0),
        Value::Array(Vec::new()),
    ]))
}

pub(in crate::engine) fn command(call: &mut Call<'_>) -> Reply {
    match call.args {
        [_, sub] if is(sub, "COUNT") => Ok(count(table::len())),
        [_] => Err(error("ERR only COMMAND COUNT is supported")),
        _ => Err(call.unknown_subcommand()),
    }
}

pub(in crate::engine) fn cluster(call: &mut Call<'_>) -> Reply {
    if is(call.args[1], "KEYSLOT") {
        call.want_sub_args(|args| args == 3)?;
        return Ok(Value::Int(i64::from(slot::of(call.args[2]))));
    }
    Err(error("ERR This instance has cluster support disabled"))
}

pub(in crate::engine) fn config(call: &mut Call<'_>) -> Reply {
    if is(call.args[1], "GET") {
        call.want_sub_args(|args| args >= 3)?;
        let patterns: Vec<_> = call.args[2..].iter().map(|arg| lower(arg)).collect();
        let hits = call.core.config.iter().filter(|(name, _)| {
            patterns
                .iter()
                .any(|pattern| glob::matches(pattern.as_bytes(), name.as_bytes()))
        });
        let pairs = hits.flat_map(|(name, value)| [bulk(name.as_bytes()), bulk(value.as_bytes())]);
        Ok(Value::Array(pairs.collect()))
    } else if is(call.args[1], "SET") {
        call.want_sub_args(|args| args >= 4)?;
        set_config(call)
    } else {
        Err(call.unknown_subcommand())
    }
}

pub(in crate::engine) fn info(call: &mut Call<'_>) -> Reply {
    let sections: Vec<_> = call.args[1..].iter().map(|arg| lower(arg)).collect();
    let wanted = |name: &str| {
        let all = ["all", "default", "everything", name];
        sections.is_empty()
            || sections
                .iter()
                .any(|section| all.contains(&section.as_str()))
    };
    let core = &call.core;
    let uptime = call.clock.now.since(core.started).as_secs();
    let mut text = Vec::new();
    if wanted("server") {
        let version = core.model.version_info();
        text.push(format!(
            "# Server\r\n{version}redis_mode:standalone\r\nuptime_in_seconds:{uptime}\r\n"
        ));
    }
    if wanted("clients") {
        text.push(format!(
            "# Clients\r\nconnected_clients:{}\r\n",
            core.sessions.len()
        ));
    }
    if wanted("memory") {
        let policy = core
            .config
            .get("maxmemory-policy")
            .map_or("", String::as_str);
        let (used, limit) = (used_memory(core), maxmemory(core));
        text.push(format!(
            "# Memory\r\nused_memory:{used}\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"
        ));
    }
    if wanted("stats") {
        let commands: u64 = core.counts.values().sum();
        text.push(format!(
            "# Stats\r\ntotal_commands_processed:{commands}\r\n"
        ));
    }
    if wanted("replication") {
        let replica = core.conditions.has(Condition::ReadOnly);
        let role = if replica { "slave" } else { "master" };
        text.push(format!(
            "# Replication\r\nrole:{role}\r\nconnected_slaves:{}\r\n",
            core.replicas
        ));
    }
    if wanted("cluster") {
        text.push("# Cluster\r\ncluster_enabled:0\r\n".to_owned());
    }
    Ok(bulk(text.join("\r\n").as_bytes()))
}

/// Returns the parameter `maxmemory`, with zero for no limit.
pub(in crate::engine) fn maxmemory(core: &Core) -> usize {
    core.config
        .get("maxmemory")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
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
        let (name, value) = (
            lower(pair[0]),
            String::from_utf8_lossy(pair[1]).into_owned(),
        );
        if !call.core.config.contains_key(&name) {
            return Err(unknown_parameter(call, pair[0]));
        }
        let value = if name == "maxmemory" {
            memory(call, &value)?
        } else {
            value
        };
        changes.push((name, value));
    }
    call.core.config.extend(changes);
    ok()
}

/// Reads a number of bytes with an optional unit.
fn memory(call: &Call<'_>, value: &str) -> Result<String, ServerError> {
    let lowered = value.to_ascii_lowercase();
    let digits = lowered.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor: Option<u64> = match &lowered[digits.len()..] {
        "" | "b" => Some(1),
        "k" => Some(1000),
        "kb" => Some(1 << 10),
        "m" => Some(1_000_000),
        "mb" => Some(1 << 20),
        "g" => Some(1_000_000_000),
        "gb" => Some(1 << 30),
        _ => None,
    };
    let bytes = factor.and_then(|factor| digits.parse::<u64>().ok()?.checked_mul(factor));
    bytes.map(|bytes| bytes.to_string()).ok_or_else(|| {
        let seven = call.model().is_seven();
        error(&if seven {
            "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value".to_owned()
        } else {
            format!("ERR Invalid argument '{value}' for CONFIG SET 'maxmemory' - argument must be a memory value")
        })
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
