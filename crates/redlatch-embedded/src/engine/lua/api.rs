//! The functions that scripts call: the `redis` library and `math.random`.

use std::sync::{Arc, Mutex};

use mlua::{Lua, MultiValue, Table, Value as LuaValue};
use redlatch_core::runtime::Value;

use super::{convert, errors, errors::Raised, random, sha1_hex};
use crate::engine::{
    Model,
    core::{Core, Refused},
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
        let sha = lock(&shared)
            .script
            .as_ref()
            .map(|script| script.sha.clone());
        Ok(errors::report(lua, model, &sha.unwrap_or_default(), &value))
    };
    table.set("report", lua.create_function(report)?)?;
    table.set("is_valkey", model == Model::Valkey9_1)?;
    Ok(table)
}

/// Adds `redis.call` and `redis.pcall`.
fn commands(lua: &Lua, table: &Table, core: &Arc<Mutex<Core>>, model: Model) -> mlua::Result<()> {
    let shared = Arc::clone(core);
    let call = move |lua: &Lua, args: MultiValue| match execute(lua, &shared, &args, model) {
        Ok(value) => convert::to_lua(lua, &value),
        Err(line) => Raised::raise(line),
    };
    table.set("call", lua.create_function(call)?)?;
    let shared = Arc::clone(core);
    let pcall = move |lua: &Lua, args: MultiValue| match execute(lua, &shared, &args, model) {
        Ok(value) => convert::to_lua(lua, &value),
        Err(line) => convert::field(lua, "err", line.as_bytes()),
    };
    table.set("pcall", lua.create_function(pcall)?)
}

fn execute(
    lua: &Lua,
    core: &Mutex<Core>,
    args: &MultiValue,
    model: Model,
) -> Result<Value, String> {
    let command = convert::to_command(args, model);
    let reply = match command {
        Ok(command) => lock(core).execute_in_script(&command),
        Err(error) => Err(Refused::ByGate(error)),
    };
    reply.map_err(|refused| match refused {
        Refused::ByGate(error) => errors::refusal(lua, model, &error),
        Refused::ByCommand(error) => error.to_string(),
    })
}

/// Adds the functions that make a reply or inspect one value.
fn replies(lua: &Lua, table: &Table, model: Model) -> mlua::Result<()> {
    let error_reply = move |lua: &Lua, args: MultiValue| match one_string(&args) {
        Some(text) => convert::field(lua, "err", &error_text(model, text)),
        None => wrong_type(lua, model),
    };
    table.set("error_reply", lua.create_function(error_reply)?)?;
    let status_reply = move |lua: &Lua, args: MultiValue| match one_string(&args) {
        Some(text) => convert::field(lua, "ok", &text),
        None => wrong_type(lua, model),
    };
    table.set("status_reply", lua.create_function(status_reply)?)?;
    let sha1hex = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Raised::raise(own(model, "wrong number of arguments"));
        }
        let text = args
            .into_iter()
            .next()
            .and_then(|arg| lua.coerce_string(arg).ok().flatten());
        Ok(sha1_hex(
            &text
                .map(|text| text.as_bytes().to_vec())
                .unwrap_or_default(),
        ))
    };
    table.set("sha1hex", lua.create_function(sha1hex)?)?;
    table.set(
        "log",
        lua.create_function(move |_, args: MultiValue| log(model, &args))?,
    )?;
    let setresp = move |_: &Lua, args: MultiValue| setresp(model, &args);
    table.set("setresp", lua.create_function(setresp)?)
}

/// Runs `redis.setresp`, which accepts the current version of the protocol only.
fn setresp(model: Model, args: &MultiValue) -> mlua::Result<()> {
    let version = args.front().and_then(LuaValue::as_f64);
    match (args.len(), version.map(f64::trunc)) {
        (1, Some(2.0)) => Ok(()),
        (1, Some(3.0)) => Raised::raise(own(model, "the embedded engine speaks RESP2 only")),
        (1, _) => Raised::raise(own(model, "RESP version must be 2 or 3.")),
        _ => {
            let text = format!("{}.setresp() requires one argument.", library(model));
            Raised::raise(own(model, &text))
        }
    }
}

/// Runs `redis.log`: checks the arguments as servers do, and logs nothing.
fn log(model: Model, args: &MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        let text = format!("{}.log() requires two arguments or more.", library(model));
        return Raised::raise(own(model, &text));
    }
    let Some(level) = args.front().and_then(LuaValue::as_f64) else {
        return Raised::raise(own(model, "First argument must be a number (log level)."));
    };
    if !(0.0..4.0).contains(&level) {
        let what = if model == Model::Valkey9_1 {
            "log"
        } else {
            "debug"
        };
        return Raised::raise(own(model, &format!("Invalid {what} level.")));
    }
    Ok(())
}

/// Returns the name of the library in the errors of this server.
fn library(model: Model) -> &'static str {
    if model == Model::Valkey9_1 {
        "server"
    } else {
        "redis"
    }
}

fn randomness(lua: &Lua, table: &Table, core: &Arc<Mutex<Core>>) -> mlua::Result<()> {
    let shared = Arc::clone(core);
    let draw = move |_: &Lua, (low, high): (Option<f64>, Option<f64>)| {
        let drawn = lock(&shared).script.as_mut().map_or(0.0, random::draw);
        let (low, high) = match (low, high) {
            (None, _) => return Ok(drawn),
            (Some(high), None) => (1.0, high),
            (Some(low), Some(high)) => (low, high),
        };
        if low > high {
            return Raised::raise("ERR bad argument to 'random' (interval is empty)".to_owned());
        }
        Ok((drawn * (high.trunc() - low.trunc() + 1.0)).floor() + low.trunc())
    };
    table.set("random", lua.create_function(draw)?)?;
    let shared = Arc::clone(core);
    let seed = move |_: &Lua, number: i32| {
        if let Some(script) = &mut lock(&shared).script {
            random::seed(script, number);
        }
        Ok(())
    };
    table.set("random_seed", lua.create_function(seed)?)
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
fn own(model: Model, text: &str) -> String {
    if model.wraps_script_errors() {
        text.to_owned()
    } else {
        format!("ERR {text}")
    }
}
