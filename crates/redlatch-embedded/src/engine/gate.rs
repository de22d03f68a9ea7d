//! The checks before a command: whether it exists, has enough arguments, and is admitted now.

use redlatch_core::runtime::ServerError;

use super::{
    Model, SessionId,
    call::{error, is, wrong_arity},
    commands::server,
    core::Core,
    table::{self, Spec},
};

/// A condition under which a server refuses some or all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Condition {
    /// The memory is used up. Commands that may need memory are refused with `OOM`. In a script
    /// they are refused only until the first write that was admitted.
    Full,
    /// Fewer replicas are connected than configured. Every write is refused with `NOREPLICAS`.
    ShortOfReplicas,
    /// The server is a replica. Every write is refused with `READONLY`.
    ReadOnly,
    /// The server is loading its data. Nearly all commands are refused with `LOADING`.
    Loading,
    /// A script of another client exceeds its time limit. Nearly all commands are refused with
    /// `BUSY`.
    Busy,
    /// The user has no right to any channel. Messages of scripts are refused with `NOPERM`.
    NoChannels,
}

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
    if !spec.takes(args.len()) {
        return Err(wrong_arity(spec.name));
    }
    if spec.has(table::DENYOOM) && is_full(core) {
        return Err(out_of_memory());
    }
    refuse_write(core, spec)?;
    let session = core.sessions.get(&session);
    let subscribes = session.is_some_and(|session| session.subscribes);
    if subscribes != spec.has(table::PUBSUB) && spec.name != "ping" {
        let name = spec.name;
        return Err(error(&format!(
            "ERR Can't execute '{name}': subscriptions and commands use connections of their own"
        )));
    }
    let product = core.model.product();
    if core.is(Condition::Loading) && !spec.has(table::LOADING) {
        return Err(error(&format!(
            "LOADING {product} is loading the dataset in memory"
        )));
    }
    let kills_script = spec.name == "script" && is(args[1], "KILL");
    if core.is(Condition::Busy) && !kills_script {
        return Err(error(&format!(
            "BUSY {product} is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        )));
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
    if !spec.takes(args.len()) {
        return Err(wrong_arity_in_script(model));
    }
    if spec.has(table::NOSCRIPT) {
        return Err(table::not_from_scripts(model));
    }
    refuse_write(core, spec)?;
    if core.is(Condition::NoChannels) && spec.has(table::PUBLISHES) {
        return Err(error(
            "NOPERM User has no permissions to access one of the channels",
        ));
    }
    let Some(script) = &mut core.script else {
        return Err(no_script());
    };
    if spec.has(table::DENYOOM) && script.was_full && !script.wrote {
        return Err(out_of_memory());
    }
    script.wrote |= spec.has(table::WRITE);
    let is_undeclared = |key: &&&[u8]| !script.keys.iter().any(|declared| declared == *key);
    if let Some(key) = spec.keys_of(args).iter().find(is_undeclared) {
        let key = String::from_utf8_lossy(key);
        return Err(error(&format!(
            "ERR Script attempted to access the undeclared key '{key}'"
        )));
    }
    Ok(spec)
}

/// Tells whether the server is full, by its condition or by its memory against `maxmemory`.
pub(super) fn is_full(core: &Core) -> bool {
    let limit = server::maxmemory(core);
    core.is(Condition::Full) || limit > 0 && server::used_memory(core) > limit
}

pub(super) fn no_script() -> ServerError {
    error("ERR redis.call was used outside of a script")
}

fn refuse_write(core: &Core, spec: &Spec) -> Result<(), ServerError> {
    if !spec.has(table::WRITE) {
        return Ok(());
    }
    let wanted: u32 = core.config["min-replicas-to-write"].parse().unwrap_or(0);
    if core.replicas < wanted || core.is(Condition::ShortOfReplicas) {
        return Err(error("NOREPLICAS Not enough good replicas to write."));
    }
    if core.is(Condition::ReadOnly) {
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
    let (quote, comma) = match model {
        Model::Redis6_2 => ("`", ","),
        _ => ("'", ""),
    };
    let mut tail = String::new();
    for arg in args.iter().skip(1) {
        if tail.len() >= ECHO_LIMIT {
            break;
        }
        let shown = clean(arg, ECHO_LIMIT - tail.len());
        tail.push_str(&format!("{quote}{shown}{quote}{comma} "));
    }
    let name = clean(args[0], ECHO_LIMIT);
    error(&format!(
        "ERR unknown command {quote}{name}{quote}, with args beginning with: {tail}"
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

/// The number of bytes of the arguments that the error for an unknown command shows.
const ECHO_LIMIT: usize = 128;
