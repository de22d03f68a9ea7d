//! The state of one command while it runs, and the helpers that command handlers share.

use redlatch_core::runtime::{Reply, ServerError, Value};

use super::{
    Model, SessionId,
    core::Core,
    hash::Hash,
    keyspace::{Entry, Object},
    number,
    table::{Handler, Spec},
    time::Clock,
    zset::SortedSet,
};

/// A running command: its arguments, its clock and the state that it may change.
pub(super) struct Call<'a> {
    pub(super) core: &'a mut Core,
    pub(super) session: SessionId,
    pub(super) spec: &'static Spec,
    pub(super) args: &'a [&'a [u8]],
    pub(super) clock: Clock,
}

impl<'a> Call<'a> {
    /// Runs the handler of the command, and counts its effect.
    pub(super) fn run(mut self, handler: Handler) -> Reply {
        let reply = handler(&mut self);
        self.core.effects += u64::from(self.spec.has_effect(&reply));
        reply
    }

    pub(super) const fn model(&self) -> Model {
        self.core.model
    }

    /// Returns the first key, which is the second argument of every command with keys.
    pub(super) const fn key(&self) -> &'a [u8] {
        self.args[1]
    }

    /// Returns the live entry under `key`.
    pub(super) fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.core.data.live(key, self.clock.expiry)
    }

    /// Returns the string under the first key.
    pub(super) fn string(&mut self) -> Result<Option<&mut Vec<u8>>, ServerError> {
        match self.entry(self.args[1]).map(|entry| &mut entry.object) {
            None => Ok(None),
            Some(Object::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong_type()),
        }
    }

    /// Returns the hash under the first key.
    pub(super) fn hash(&mut self) -> Result<Option<&mut Hash>, ServerError> {
        match self.entry(self.args[1]).map(|entry| &mut entry.object) {
            None => Ok(None),
            Some(Object::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(wrong_type()),
        }
    }

    /// Returns the hash under the first key, and creates it if there is none.
    pub(super) fn hash_or_new(&mut self) -> Result<&mut Hash, ServerError> {
        match self.object_or(|| Object::Hash(Hash::default())) {
            Object::Hash(hash) => Ok(hash),
            _ => Err(wrong_type()),
        }
    }

    /// Returns the sorted set under the first key.
    pub(super) fn sorted_set(&mut self) -> Result<Option<&mut SortedSet>, ServerError> {
        match self.entry(self.args[1]).map(|entry| &mut entry.object) {
            None => Ok(None),
            Some(Object::SortedSet(set)) => Ok(Some(set)),
            Some(_) => Err(wrong_type()),
        }
    }

    /// Returns the sorted set under the first key, and creates it if there is none.
    pub(super) fn sorted_set_or_new(&mut self) -> Result<&mut SortedSet, ServerError> {
        match self.object_or(|| Object::SortedSet(SortedSet::default())) {
            Object::SortedSet(set) => Ok(set),
            _ => Err(wrong_type()),
        }
    }

    pub(super) fn object_or(&mut self, new: fn() -> Object) -> &mut Object {
        self.entry(self.args[1]);
        &mut self.core.data.or_insert(self.args[1], new).object
    }

    /// Removes the first key if its collection is empty, as Redis does with every collection.
    pub(super) fn drop_if_empty(&mut self) {
        let is_empty = match self.entry(self.args[1]).map(|entry| &entry.object) {
            Some(Object::Hash(hash)) => hash.is_empty(),
            Some(Object::SortedSet(set)) => set.is_empty(),
            Some(Object::String(_)) | None => false,
        };
        if is_empty {
            self.core.data.remove(self.args[1]);
        }
    }

    /// Reads the argument at index `at` as an integer.
    pub(super) fn int(&self, at: usize) -> Result<i64, ServerError> {
        number::parse_int(self.args[at]).ok_or_else(not_an_integer)
    }

    /// Returns a score as a reply.
    pub(super) fn score(&self, score: f64) -> Value {
        Value::Bulk(number::score_text(self.model(), score).into_bytes())
    }

    /// Returns the error for a wrong number of arguments.
    pub(super) fn wrong_arity(&self) -> ServerError {
        wrong_arity(&lower(self.args[0]))
    }

    /// Returns the error for an expiry beyond the range of the clock.
    pub(super) fn invalid_expire(&self) -> ServerError {
        let command = lower(self.args[0]);
        error(&if self.model().is_seven() {
            format!("ERR invalid expire time in '{command}' command")
        } else {
            format!("ERR invalid expire time in {command}")
        })
    }
}

/// Splits an error line into code and text.
pub(super) fn error(line: &str) -> ServerError {
    let (code, message) = line.split_once(' ').unwrap_or((line, ""));
    ServerError {
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

pub(super) fn wrong_arity(command: &str) -> ServerError {
    error(&format!(
        "ERR wrong number of arguments for '{command}' command"
    ))
}

/// Returns the error of a container command such as `CLIENT`. A subcommand of `known` has the wrong
/// number of arguments, and any other is unknown.
pub(super) fn no_subcommand(model: Model, args: &[&[u8]], known: &[&str]) -> ServerError {
    let [command, sub] = [args[0], args[1]].map(lower);
    match model.is_seven() && known.contains(&&*sub) {
        true => wrong_arity(&format!("{command}|{sub}")),
        false => unknown_subcommand(model, args),
    }
}

pub(super) fn unknown_subcommand(model: Model, args: &[&[u8]]) -> ServerError {
    let sub = String::from_utf8_lossy(args[1]);
    let command = lower(args[0]).to_ascii_uppercase();
    let what = match model {
        Model::Redis6_2 => "Unknown subcommand or wrong number of arguments for",
        _ => "unknown subcommand",
    };
    error(&format!("ERR {what} '{sub}'. Try {command} HELP."))
}

pub(super) fn wrong_type() -> ServerError {
    error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

pub(super) fn syntax() -> ServerError {
    error("ERR syntax error")
}

pub(super) fn not_an_integer() -> ServerError {
    error("ERR value is not an integer or out of range")
}

/// Adds `by` to a stored number, which is zero if there is none.
pub(super) fn sum(
    old: Option<&[u8]>,
    by: i64,
    no_number: fn() -> ServerError,
) -> Result<i64, ServerError> {
    let old = old.map_or(Some(0), number::parse_int);
    let sum = old.ok_or_else(no_number)?.checked_add(by);
    sum.ok_or_else(|| error("ERR increment or decrement would overflow"))
}

pub(super) fn not_a_float() -> ServerError {
    error("ERR value is not a valid float")
}

pub(super) fn ok() -> Reply {
    Ok(Value::Status("OK".to_owned()))
}

/// Returns a count or a length as a reply.
pub(super) fn count(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Returns one for true and zero for false.
pub(super) fn flag(flag: bool) -> Value {
    Value::Int(i64::from(flag))
}

pub(super) fn bulk(bytes: &[u8]) -> Value {
    Value::Bulk(bytes.to_vec())
}

/// Returns a bulk string, or nil for `None`.
pub(super) fn bulk_or_nil(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Nil, bulk)
}

/// Tells whether an argument is this word, in any case.
pub(super) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

pub(super) fn lower(arg: &[u8]) -> String {
    String::from_utf8_lossy(arg).to_ascii_lowercase()
}
