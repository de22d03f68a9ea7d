//! Conversion of replies to Lua values and back.

use mlua::{Lua, MultiValue, Table, Value as LuaValue};
use redlatch_core::runtime::{Command, Reply, ServerError, Value};

use crate::engine::{Model, call::error, number};

/// Converts the arguments of `redis.call` into a command.
pub(super) fn to_command(args: &MultiValue, model: Model) -> Result<Command, ServerError> {
    if args.is_empty() {
        return Err(error(match model {
            Model::Redis6_2 => "ERR Please specify at least one argument for redis.call()",
            Model::Redis7_0 => "ERR Please specify at least one argument for this redis lib call",
            Model::Valkey9_1 => "ERR Please specify at least one argument for this call",
        }));
    }
    let mut command = Command::with_capacity(args.len(), 128);
    for arg in args {
        match arg {
            LuaValue::String(text) => command.push(&*text.as_bytes()),
            // Lua 5.1 has doubles only; the integer variant comes from the binding.
            LuaValue::Integer(number) => command.push(number::argument_text(model, *number as f64)),
            LuaValue::Number(number) => command.push(number::argument_text(model, *number)),
            _ => return Err(wrong_argument(model)),
        }
    }
    Ok(command)
}

/// Converts a reply into the Lua value that a script receives.
pub(super) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Nil => LuaValue::Boolean(false),
        Value::Int(number) => LuaValue::Number(*number as f64),
        Value::Bulk(bytes) => LuaValue::String(lua.create_string(bytes)?),
        Value::Status(text) => field(lua, "ok", text.as_bytes())?,
        Value::Error(error) => field(lua, "err", error.to_string().as_bytes())?,
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                match item {
                    Value::Bulk(bytes) => push(lua, &table, bytes)?,
                    _ => table.raw_push(to_lua(lua, item)?)?,
                }
            }
            LuaValue::Table(table)
        }
    })
}

/// Creates a table of strings.
pub(super) fn list(lua: &Lua, items: &[&[u8]]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(items.len(), 0)?;
    for item in items {
        push(lua, &table, item)?;
    }
    Ok(table)
}

/// Appends a string. Valid UTF-8 goes into the table without a handle to a Lua string, which halves
/// the cost.
fn push(lua: &Lua, table: &Table, bytes: &[u8]) -> mlua::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => table.raw_push(text),
        Err(_) => table.raw_push(lua.create_string(bytes)?),
    }
}

/// Creates a table of one field, the form of statuses and errors in Lua.
pub(super) fn field(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<LuaValue> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(LuaValue::Table(table))
}

/// Converts the result of a script into a reply.
pub(super) fn to_reply(value: &LuaValue) -> Reply {
    match from_lua(value, 0)? {
        Value::Error(error) => Err(error),
        value => Ok(value),
    }
}

/// Reads an error line that a script has made. The first word is the code, whatever it is.
pub(super) fn error_line(line: &[u8]) -> ServerError {
    let line = until_nul(line);
    let last = line.iter().rposition(|byte| !b"\r\n".contains(byte));
    error(&one_line(&line[..last.map_or(0, |last| last + 1)]))
}

fn from_lua(value: &LuaValue, depth: usize) -> Reply {
    if depth > DEEPEST {
        return Err(error("ERR reached lua stack limit"));
    }
    Ok(match value {
        LuaValue::String(text) => Value::Bulk(text.as_bytes().to_vec()),
        LuaValue::Boolean(true) => Value::Int(1),
        LuaValue::Integer(number) => Value::Int(*number),
        LuaValue::Number(number) => Value::Int(truncate(*number)),
        LuaValue::Table(table) => from_table(table, depth)?,
        _ => Value::Nil,
    })
}

fn from_table(table: &Table, depth: usize) -> Reply {
    if let Some(line) = string_field(table, "err") {
        return Ok(Value::Error(error_line(&line)));
    }
    if let Some(line) = string_field(table, "ok") {
        return Ok(Value::Status(one_line(&line)));
    }
    let mut items = Vec::with_capacity(table.raw_len());
    loop {
        let item: LuaValue = table.raw_get(items.len() + 1).unwrap_or(LuaValue::Nil);
        if item.is_nil() {
            return Ok(Value::Array(items));
        }
        items.push(from_lua(&item, depth + 1)?);
    }
}

fn string_field(table: &Table, name: &str) -> Option<Vec<u8>> {
    match table.raw_get(name) {
        Ok(LuaValue::String(text)) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

/// Converts a number as C does on the servers' machines. NaN and values out of range become the
/// smallest integer.
fn truncate(number: f64) -> i64 {
    if number.is_nan() || !(-TWO_TO_63..TWO_TO_63).contains(&number) {
        return i64::MIN;
    }
    number as i64
}

/// Makes one line of a text: cuts it at its first NUL, and replaces the line ends in it.
fn one_line(text: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(text)).replace(['\r', '\n'], " ")
}

/// Returns the text up to its first NUL, where C ends it.
pub(super) fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn wrong_argument(model: Model) -> ServerError {
    error(match model {
        Model::Redis6_2 => "ERR Lua redis() command arguments must be strings or integers",
        Model::Redis7_0 => "ERR Lua redis lib command arguments must be strings or integers",
        Model::Valkey9_1 => "ERR Command arguments must be strings or integers",
    })
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The limit of nesting in a reply. A deeper reply is refused; a table that contains itself would
/// never end.
const DEEPEST: usize = 100;
