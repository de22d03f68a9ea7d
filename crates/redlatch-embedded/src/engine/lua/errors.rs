//! Errors inside scripts, in the wording of each server.

use mlua::{Error as LuaError, Lua, Value as LuaValue};
use redlatch_core::runtime::ServerError;

use super::{CHUNK, convert};
use crate::engine::{Model, call};

/// Returns the error for a script that does not compile.
pub(super) fn compile(error: &LuaError) -> ServerError {
    let text = match error {
        LuaError::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let line = format!("ERR Error compiling script (new function): {text}");
    call::error(&line)
}

/// Words an error of the server's own checks as `redis.pcall` returns it.
pub(super) fn refusal(lua: &Lua, model: Model, error: &ServerError) -> String {
    if !model.wraps_script_errors() {
        return error.to_string();
    }
    let (source, line) = caller(lua);
    let text = match error.code.as_str() {
        "ERR" => error.message.clone(),
        // Inside the server these errors are whole protocol lines, and a script sees them so.
        _ => format!("-{error}\r\n"),
    };
    format!("{source}: {line}: {text}")
}

/// Returns the error value that a script's `pcall` returns. Newer servers convert an error table to
/// a string.
pub(super) fn caught(lua: &Lua, model: Model, value: LuaValue) -> mlua::Result<LuaValue> {
    match &value {
        LuaValue::Error(error) => Ok(LuaValue::String(lua.create_string(host_line(error))?)),
        LuaValue::Table(table) if !model.wraps_script_errors() => {
            Ok(match table.raw_get::<LuaValue>("err")? {
                LuaValue::String(line) => LuaValue::String(line),
                _ => value,
            })
        }
        _ => Ok(value),
    }
}

/// Returns the error value that the handler of a script's `xpcall` receives.
pub(super) fn raised(lua: &Lua, model: Model, value: LuaValue) -> mlua::Result<LuaValue> {
    match &value {
        LuaValue::Error(error) if model.wraps_script_errors() => {
            Ok(LuaValue::String(lua.create_string(host_line(error))?))
        }
        LuaValue::Error(error) => convert::field(lua, "err", host_line(error).as_bytes()),
        _ => Ok(value),
    }
}

/// Words the error that ended a script, with the place where it was raised.
pub(super) fn report(lua: &Lua, model: Model, sha: &str, value: &LuaValue) -> String {
    let (source, line) = script_frame(lua);
    if model.wraps_script_errors() {
        let inner = match value {
            LuaValue::Nil | LuaValue::Table(_) | LuaValue::Boolean(_) => {
                let kind = value.type_name();
                format!(
                    "@err_handler_def:9: err_handler_def:9: \
                     attempt to concatenate local 'err' (a {kind} value)"
                )
            }
            _ => format!("{source}:{line}: {}", text(value)),
        };
        return format!("ERR Error running script (call to f_{sha}): {inner}");
    }
    let error = match value {
        LuaValue::Table(table) => match table.raw_get::<LuaValue>("err") {
            Ok(LuaValue::String(line)) => line.to_string_lossy(),
            _ => "ERR unknown error".to_owned(),
        },
        LuaValue::Error(error) => host_line(error),
        _ => format!("ERR {}", text(value)),
    };
    let which = match model {
        Model::Valkey9_1 => String::new(),
        _ => format!("{sha}, "),
    };
    format!("{error} script: {which}on {source}:{line}.")
}

/// Returns the line that a host function has raised, out of an error that came back through Lua.
fn host_line(error: &LuaError) -> String {
    let mut raised = error;
    while let LuaError::CallbackError { cause, .. } = raised {
        raised = cause;
    }
    if let LuaError::RuntimeError(line) = raised {
        return line.clone();
    }
    let text = error.to_string();
    format!("ERR {}", text.lines().next().unwrap_or_default())
}

/// Returns the text of an error value up to its first NUL, where C ends it.
fn text(value: &LuaValue) -> String {
    let text = match value {
        LuaValue::Error(error) => host_line(error),
        LuaValue::String(text) => text.to_string_lossy(),
        value => value.to_string().unwrap_or_default(),
    };
    text.split('\0').next().unwrap_or_default().to_owned()
}

/// Returns the function that called the host, as 6.2 names it.
fn caller(lua: &Lua) -> (String, String) {
    frame(lua, 1).unwrap_or_else(|| ("=[C]".to_owned(), "-1".to_owned()))
}

/// Returns the nearest line of the script itself.
fn script_frame(lua: &Lua) -> (String, String) {
    let frames = (1..DEEPEST_FRAME).map_while(|level| frame(lua, level));
    let mut scripts = frames.filter(|(source, _)| source == CHUNK);
    let found = scripts.next();
    found.unwrap_or_else(|| (CHUNK.to_owned(), "1".to_owned()))
}

fn frame(lua: &Lua, level: usize) -> Option<(String, String)> {
    lua.inspect_stack(level, |frame| {
        let source = frame.source().source.map(std::borrow::Cow::into_owned);
        let line = frame.current_line().map(|line| line.to_string());
        let line = line.unwrap_or_else(|| "-1".to_owned());
        (source.unwrap_or_default(), line)
    })
}

/// The limit of the search for a frame of the script. An error that was raised deeper is reported
/// at the first line.
const DEEPEST_FRAME: usize = 64;
