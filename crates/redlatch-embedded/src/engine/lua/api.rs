//! The functions that scripts call: the `redis` library and `math.random`.

use std::sync::{Arc, Mutex};

use mlua::{Error as LuaError, Lua, MultiValue, Table, Value as LuaValue};
use redlatch_core::runtime::Value;

use super::{convert, errors, sha1_hex};
use crate::engine::{
    Model,
    core::{Core, Refused, ScriptRun},
    lock,
};

/// Creates the table of host functions from which the prelude builds the environment of scripts.
pub(super) fn table(lua: &Lua, core: &Arc<Mutex<Core>>, model: Model) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    commands(lua, &table, core, model)?;
    replies(lua, &table, model)?;
    randomness(lua, &table, core)?;
    let caught = move |lua: &Lua, value| errors::caught(lua, model, value);
    table.set("caught_error", lua.create_function(caught)?)?;
    let raised = move |lua: &Lua, value| errors::raised(lua, model, value);
    table.set("raised_error", lua.create_function(raised)?)?;
    let shared = Arc::clone(core);
    let report = move |lua: &Lua, value: LuaValue| {
        let sha_of = |core: &Core| core.script.as_ref().map(|script| script.sha.clone());
        let sha = sha_of(&lock(&shared)).unwrap_or_default();
        Ok(errors::report(lua, model, &sha, &value))
    };
    table.set("report", lua.create_function(report)?)?;
    table.set("is_valkey", model == Model::Valkey9_1)?;
    Ok(table)
}

/// Adds `redis.call` and `redis.pcall`.
fn commands(lua: &Lua, table: &Table, core: &Arc<Mutex<Core>>, model: Model) -> mlua::Result<()> {
    for (name, raises) in [("call", true), ("pcall", false)] {
        let shared = Arc::clone(core);
        let run = move |lua: &Lua, args: MultiValue| match execute(lua, &shared, &args, model) {
            Ok(value) => convert::to_lua(lua, &value),
            Err(line) if raises => Err(LuaError::RuntimeError(line)),
            Err(line) => convert::field(lua, "err", line.as_bytes()),
        };
        table.set(name, lua.create_function(run)?)?;
    }
    Ok(())
}

fn execute(
    lua: &Lua,
    core: &Mutex<Core>,
    args: &MultiValue,
    model: Model,
) -> Result<Value, String> {
    let command = convert::to_command(args, model).map_err(Refused::ByGate);
    let reply = command.and_then(|command| lock(core).execute_in_script(&command));
    reply.map_err(|refused| match refused {
        Refused::ByGate(error) => errors::refusal(lua, model, &error),
        Refused::ByCommand(error) => error.to_string(),
    })
}

/// Adds the functions that make a reply or inspect one value.
fn replies(lua: &Lua, table: &Table, model: Model) -> mlua::Result<()> {
    for (name, field) in [("error_reply", "err"), ("status_reply", "ok")] {
        let reply = move |lua: &Lua, args: MultiValue| match one_string(&args) {
            Some(text) if field == "err" => convert::field(lua, field, &error_text(model, text)),
            Some(text) => convert::field(lua, field, &text),
            None => wrong_type(lua, model),
        };
        table.set(name, lua.create_function(reply)?)?;
    }
    let sha1hex = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(own(model, "wrong number of arguments"));
        }
        let text = args.into_iter().next();
        let text = text.and_then(|arg| lua.coerce_string(arg).ok().flatten());
        let text = text.map(|text| text.as_bytes().to_vec());
        Ok(sha1_hex(&text.unwrap_or_default()))
    };
    table.set("sha1hex", lua.create_function(sha1hex)?)?;
    let log = move |_: &Lua, args: MultiValue| log(model, &args);
    table.set("log", lua.create_function(log)?)?;
    let setresp = move |_: &Lua, args: MultiValue| setresp(model, &args);
    table.set("setresp", lua.create_function(setresp)?)
}

/// Runs `redis.setresp`, which accepts the current version of the protocol only.
fn setresp(model: Model, args: &MultiValue) -> mlua::Result<()> {
    let version = args.front().and_then(LuaValue::as_f64);
    let text = match (args.len(), version.map(f64::trunc)) {
        (1, Some(2.0)) => return Ok(()),
        (1, Some(3.0)) => "the embedded engine speaks RESP2 only",
        (1, _) => "RESP version must be 2 or 3.",
        _ => &format!("{}.setresp() requires one argument.", library(model)),
    };
    Err(own(model, text))
}

/// Runs `redis.log`: checks the arguments as servers do, and logs nothing.
fn log(model: Model, args: &MultiValue) -> mlua::Result<()> {
    let what = match model {
        Model::Valkey9_1 => "log",
        _ => "debug",
    };
    let text = match (args.len(), args.front().and_then(LuaValue::as_f64)) {
        (..2, _) => format!("{}.log() requires two arguments or more.", library(model)),
        (_, None) => "First argument must be a number (log level).".to_owned(),
        (_, Some(level)) if (0.0..4.0).contains(&level) => return Ok(()),
        (_, Some(_)) => format!("Invalid {what} level."),
    };
    Err(own(model, &text))
}

/// Returns the name of the library in the errors of this server.
const fn library(model: Model) -> &'static str {
    match model {
        Model::Valkey9_1 => "server",
        _ => "redis",
    }
}

fn randomness(lua: &Lua, table: &Table, core: &Arc<Mutex<Core>>) -> mlua::Result<()> {
    let shared = Arc::clone(core);
    let random = move |_: &Lua, (low, high): (Option<f64>, Option<f64>)| {
        let drawn = lock(&shared).script.as_mut().map_or(0.0, draw);
        let (low, high) = match (low, high) {
            (None, _) => return Ok(drawn),
            (Some(high), None) => (1.0, high),
            (Some(low), Some(high)) => (low, high),
        };
        if low > high {
            let text = "ERR bad argument to 'random' (interval is empty)";
            return Err(LuaError::runtime(text));
        }
        Ok((drawn * (high.trunc() - low.trunc() + 1.0)).floor() + low.trunc())
    };
    table.set("random", lua.create_function(random)?)?;
    let shared = Arc::clone(core);
    let seed = move |_: &Lua, number: i32| {
        if let Some(script) = &mut lock(&shared).script {
            let bits = u64::from(u32::from_ne_bytes(number.to_ne_bytes()));
            script.random = (bits << 16) | 0x330E;
        }
        Ok(())
    };
    table.set("random_seed", lua.create_function(seed)?)
}

/// Draws a number in 0..1. The generator gives the same numbers in every run, as on servers.
fn draw(script: &mut ScriptRun) -> f64 {
    const MAX: u32 = 0x7FFF_FFFF;
    // This is the recurrence of lrand48, with the two constants of POSIX.
    let state = script.random.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
    script.random = state;
    let drawn = u32::try_from(state >> 17).unwrap_or(0) % MAX;
    f64::from(drawn) / f64::from(MAX)
}

fn one_string(args: &MultiValue) -> Option<Vec<u8>> {
    match (args.len(), args.front()) {
        (1, Some(LuaValue::String(text))) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

/// Returns the text of `redis.error_reply`. Newer servers make sure that it starts with a code.
fn error_text(model: Model, text: Vec<u8>) -> Vec<u8> {
    if model.wraps_script_errors() {
        return text;
    }
    let text = convert::until_nul(&text);
    let bare = text.strip_prefix(b"-").unwrap_or(text);
    if bare.contains(&b' ') {
        bare.to_vec()
    } else {
        [b"ERR ", bare].concat()
    }
}

fn wrong_type(lua: &Lua, model: Model) -> mlua::Result<LuaValue> {
    let error = crate::engine::call::error("ERR wrong number or type of arguments");
    convert::field(lua, "err", errors::refusal(lua, model, &error).as_bytes())
}

/// Words an error that a function of the library raises itself.
fn own(model: Model, text: &str) -> LuaError {
    LuaError::RuntimeError(match model.wraps_script_errors() {
        true => text.to_owned(),
        false => format!("ERR {text}"),
    })
}
