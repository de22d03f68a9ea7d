//! The checks before a command: whether it exists, has enough arguments, and is admitted now.

use redlatch_core::runtime::ServerError;

use super::{
    Condition, Model, SessionId,
    call::{error, is, lower, wrong_arity},
    core::Core,
    table::{self, Spec},
};

/// Admits a command of a client, or returns the error. The checks run in the order of real servers.
pub(super) fn admit(
    core: &Core,
    session: SessionId,
    args: &[&[u8]],
) -> Result<&'static Spec, ServerError> {
    let Some(name) = args.first() else {
        return Err(error("ERR empty command"));
    };
    let spec = table::find(name, core.model).ok_or_else(|| unknown_command(core.model, args))?;
    if !spec.takes(core.model, args.len()) {
        return Err(wrong_arity(spec.name));
    }
    if spec.flags & table::DENYOOM != 0 && is_full(core) {
        return Err(out_of_memory());
    }
    refuse_write(core, spec)?;
    let subscribes = core
        .sessions
        .get(&session)
        .is_some_and(|session| session.subscribes);
    if subscribes != (spec.flags & table::PUBSUB != 0) && spec.name != "ping" {
        return Err(wrong_purpose(spec));
    }
    if core.conditions.has(Condition::Loading) && spec.flags & table::LOADING == 0 {
        return Err(loading(core.model));
    }
    let kills_script = spec.name == "script" && is(args[1], "KILL");
    if core.conditions.has(Condition::Busy) && !kills_script {
        return Err(busy(core.model));
    }
    Ok(spec)
}

/// Admits a command of the running script, or returns the error. Records the first write.
pub(super) fn admit_in_script(
    core: &mut Core,
    args: &[&[u8]],
) -> Result<&'static Spec, ServerError> {
    let model = core.model;
    let name = args.first().copied().unwrap_or_default();
    let spec = table::find(name, model).ok_or_else(|| unknown_in_script(model))?;
    if !spec.takes(model, args.len()) {
        return Err(wrong_arity_in_script(model));
    }
    if spec.flags & table::NOSCRIPT != 0 {
        return Err(table::not_from_scripts(model));
    }
    let writes = spec.flags & table::WRITE != 0;
    let Some(script) = &core.script else {
        return Err(no_script());
    };
    if script.read_only && (writes || spec.flags & table::PUBLISHES != 0) {
        return Err(error(
            "ERR Write commands are not allowed from read-only scripts.",
        ));
    }
    refuse_write(core, spec)?;
    if core.conditions.has(Condition::NoChannels) && spec.flags & table::PUBLISHES != 0 {
        return Err(error(
            "NOPERM User has no permissions to access one of the channels",
        ));
    }
    let Some(script) = &mut core.script else {
        return Err(no_script());
    };
    if spec.flags & table::DENYOOM != 0 && script.was_full && !script.wrote {
        return Err(out_of_memory());
    }
    script.wrote |= writes;
    for key in spec.keys_of(args) {
        if !script.keys.iter().any(|declared| declared == key) {
            return Err(undeclared(key));
        }
    }
    Ok(spec)
}

/// Tells whether the server is full, by its condition or by its memory against `maxmemory`.
pub(super) fn is_full(core: &Core) -> bool {
    core.conditions.has(Condition::Full) || super::commands::is_over_maxmemory(core)
}

pub(super) fn no_script() -> ServerError {
    error("ERR redis.call was used outside of a script")
}

fn refuse_write(core: &Core, spec: &Spec) -> Result<(), ServerError> {
    if spec.flags & table::WRITE == 0 {
        return Ok(());
    }
    let wanted = core.config.get("min-replicas-to-write");
    let wanted: u32 = wanted.and_then(|text| text.parse().ok()).unwrap_or(0);
    if core.replicas < wanted || core.conditions.has(Condition::ShortOfReplicas) {
        return Err(error("NOREPLICAS Not enough good replicas to write."));
    }
    if core.conditions.has(Condition::ReadOnly) {
        return Err(error(
            "READONLY You can't write against a read only replica.",
        ));
    }
    Ok(())
}

fn unknown_command(model: Model, args: &[&[u8]]) -> ServerError {
    let clean = |text: &[u8], room: usize| {
        let text = String::from_utf8_lossy(&text[..text.len().min(room)]).into_owned();
        text.replace(['\r', '\n'], " ")
    };
    let (open, close, comma) = if model.is_seven() {
        ("'", "'", "")
    } else {
        ("`", "`", ",")
    };
    let mut tail = String::new();
    for arg in args.iter().skip(1) {
        if tail.len() >= ECHO_LIMIT {
            break;
        }
        let shown = clean(arg, ECHO_LIMIT - tail.len());
        tail.push_str(&format!("{open}{shown}{close}{comma} "));
    }
    let name = clean(args[0], ECHO_LIMIT);
    error(&format!(
        "ERR unknown command {open}{name}{close}, with args beginning with: {tail}"
    ))
}

fn unknown_in_script(model: Model) -> ServerError {
    error(match model {
        Model::Redis6_2 => "ERR Unknown Redis command called from Lua script",
        Model::Redis7_0 => "ERR Unknown Redis command called from script",
        Model::Valkey9_1 => "ERR Unknown command called from script",
    })
}

fn wrong_arity_in_script(model: Model) -> ServerError {
    error(match model {
        Model::Redis6_2 => "ERR Wrong number of args calling Redis command From Lua script",
        Model::Redis7_0 => "ERR Wrong number of args calling Redis command from script",
        Model::Valkey9_1 => "ERR Wrong number of args calling command from script",
    })
}

fn out_of_memory() -> ServerError {
    error("OOM command not allowed when used memory > 'maxmemory'.")
}

fn loading(model: Model) -> ServerError {
    error(&format!(
        "LOADING {} is loading the dataset in memory",
        model.product()
    ))
}

fn busy(model: Model) -> ServerError {
    let product = model.product();
    error(&format!(
        "BUSY {product} is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
    ))
}

fn undeclared(key: &[u8]) -> ServerError {
    let key = String::from_utf8_lossy(key);
    error(&format!(
        "ERR Script attempted to access the undeclared key '{key}'"
    ))
}

fn wrong_purpose(spec: &Spec) -> ServerError {
    error(&format!(
        "ERR Can't execute '{}': subscriptions and commands use connections of their own",
        lower(spec.name.as_bytes())
    ))
}

/// The number of bytes of the arguments that the error for an unknown command shows.
const ECHO_LIMIT: usize = 128;
