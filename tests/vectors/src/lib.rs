//! Vectors: recorded calls of redlatch's scripts, by which a client in any language can check that
//! it runs the same scripts against the same state.
//!
//! A [`Vector`] is the state before a call, the server's time, the call, its reply, the state after
//! it and the published messages. [`record`] makes all of them on the embedded engine.
//! `cargo xtask vectors` writes them to the folder `vectors`. [`stored`] reads that folder.
//!
//! A script reads the server's time through `TIME` alone. [`at_time`] fixes that answer in the
//! text of a script, so that a real server can replay a vector with the recorded time.

// Vectors are test data: what cannot be made or read ends the run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bed;
mod format;
mod headers;
pub mod record;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use bed::{Bed, as_json, commands};
pub use headers::{answers, declared};

/// The version of the vectors, which is that of `docs/contributing/protocol.md`.
pub const VERSION: u64 = 1;

/// One recorded call.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Vector {
    /// What the call shows. Unique for its script.
    pub name: String,
    /// The script, as `cargo xtask lua --list` names it.
    pub script: String,
    /// The server's time in µs.
    pub time: u64,
    /// `KEYS`.
    pub keys: Vec<String>,
    /// `ARGV`.
    pub args: Vec<String>,
    /// All keys before the call.
    pub before: State,
    /// A text, a number, a list of them, or `{"error": code}`.
    pub reply: Value,
    /// All keys after the call.
    pub after: State,
    /// Channel and text of each message, in order.
    #[serde(default)]
    pub messages: Vec<(String, String)>,
}

/// All keys of a server.
pub type State = BTreeMap<String, Key>;

/// A key's value, and the ms until it expires; `None` if it never does.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Key {
    /// The value.
    #[serde(flatten)]
    pub content: Content,
    /// The remaining time in ms, as `PTTL` returns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
}

/// The value of a key.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// A string.
    Text(String),
    /// A hash.
    Hash(BTreeMap<String, String>),
    /// A sorted set with whole scores.
    Sorted(BTreeMap<String, u64>),
}

impl Vector {
    /// Returns the script's text with the time fixed to that of the vector.
    pub fn text(&self) -> String {
        let source = redlatch_lua::all().find(|source| source.name == self.script);
        let source = source.unwrap_or_else(|| panic!("no script {}", self.script));
        at_time(source.text, self.time)
    }

    /// Returns the script and the name.
    pub fn title(&self) -> String {
        format!("{}: {}", self.script, self.name)
    }
}

/// Returns `script` behind a line that answers its `TIME` with `micros`, and passes every other
/// command on to the server.
pub fn at_time(script: &str, micros: u64) -> String {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    format!(
        "local redis = (function(server) \
           local function call(name, ...) \
             if name == 'TIME' then return {{'{seconds}', '{rest}'}} end \
             return server.call(name, ...) \
           end \
           return {{call = call, pcall = server.pcall, error_reply = server.error_reply}} \
         end)(redis)\n{script}"
    )
}

/// Returns the folder of the vectors.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

/// Reads all stored vectors.
///
/// # Panics
///
/// Panics if a file cannot be read.
pub fn stored() -> Vec<Vector> {
    let files = texts(&folder());
    let vectors = files.values().flat_map(|text| format::read(text));
    vectors.collect()
}

/// Makes the text of each file, by its name.
pub fn recorded() -> BTreeMap<String, String> {
    let mut files = BTreeMap::<String, Vec<Vector>>::new();
    for vector in record::all() {
        let (folder, _) = vector.script.split_once('/').expect("a folder");
        let file = files.entry(format!("{folder}.json")).or_default();
        file.push(vector);
    }
    let files = files.into_iter();
    files
        .map(|(name, vectors)| (name, format::write(&vectors)))
        .collect()
}

/// Reads the files of a folder, by their names.
///
/// # Panics
///
/// Panics if the folder or a file cannot be read.
pub fn texts(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("the folder of the vectors");
    let files = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    files
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), fs::read_to_string(&path).expect("text"))
        })
        .collect()
}

/// Runs a vector on a fresh embedded engine. Returns the vector with the reply, the state and the
/// messages of this run.
pub fn replay(vector: &Vector) -> Vector {
    let mut bed = Bed::new();
    bed.set_micros(vector.time);
    bed.restore(&vector.before);
    let (reply, messages) = bed.eval(&vector.text(), &vector.keys, &vector.args);
    Vector {
        reply,
        messages,
        after: bed.state(),
        ..vector.clone()
    }
}

/// Replaces the text of a server's own error in the answer `failed`, since servers word it
/// differently.
pub fn without_texts(mut reply: Value) -> Value {
    if let Some(items) = reply.as_array_mut()
        && items.len() == 3
        && items[1] == "failed"
    {
        items[2] = json!({ "any": "text" });
    }
    reply
}

/// Returns the JSON of an error reply: its code, since the rest differs between servers.
pub fn error(code: &str) -> Value {
    json!({ "error": code })
}
