//! An embedded engine on which vectors are recorded and replayed.

use std::{mem, time::Duration};

use redlatch_core::runtime::{Command, Push, Reply, Value as Raw};
use redlatch_embedded::engine::{
    Contents, Engine, KeyDump, Model, ServerTime, SessionId, SessionKind,
};
use serde_json::Value;

use crate::{Content, Key, State, Vector, error, without_texts};

/// An engine, its clock, and the calls recorded so far.
#[derive(Debug)]
pub struct Bed {
    engine: Engine,
    now: ServerTime,
    session: SessionId,
    vectors: Vec<Vector>,
}

/// When recording begins.
const START: u64 = 1_700_000_000_123_456;

impl Default for Bed {
    fn default() -> Self {
        Self::new()
    }
}

impl Bed {
    /// Starts an empty server.
    ///
    /// # Panics
    ///
    /// Panics if the engine refuses a subscription.
    pub fn new() -> Self {
        let now = ServerTime::from_micros(START);
        let mut engine = Engine::new(Model::default(), now);
        let session = engine.open(SessionKind::Command);
        let ears = engine.open(SessionKind::PubSub);
        let channels = CHANNELS
            .iter()
            .fold(Command::new("SUBSCRIBE"), Command::arg);
        engine
            .execute(ears, &channels, now)
            .expect("a subscription");
        engine.take_deliveries();
        Self {
            engine,
            now,
            session,
            vectors: Vec::new(),
        }
    }

    /// Returns what was recorded.
    pub fn finish(self) -> Vec<Vector> {
        self.vectors
    }

    /// Lets `ms` pass.
    pub fn pass(&mut self, ms: u64) {
        self.now = self.now.after(Duration::from_millis(ms));
    }

    /// Returns the server's time in ms.
    pub fn millis(&self) -> u64 {
        self.now.millis()
    }

    /// Sets the clock.
    pub fn set_micros(&mut self, micros: u64) {
        self.now = ServerTime::from_micros(micros);
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        for key in self.engine.keys(self.now) {
            self.engine.delete(&key, self.now);
        }
    }

    /// Runs a plain command, its words separated by white space. See [`call`](Self::call) for the
    /// short forms.
    pub fn put(&mut self, words: &str) {
        let words = self.words(words, false);
        let command = words[1..]
            .iter()
            .fold(Command::new(&words[0]), Command::arg);
        self.execute(&command).expect("a correct command");
    }

    /// Runs a script and records the call. Returns the items of the reply; a text's are its words.
    ///
    /// `keys` and `args` are words with short forms:
    ///
    /// | word | stands for |
    /// |---|---|
    /// | key `n`, `n:q` | `redlatch:{n}`, `redlatch:{n}:q`; `=data` is the key `data` |
    /// | `-`, `~` in a word | an empty text, a space |
    /// | `by`, `past` | the server's time + 5 s, and − 1 ms |
    /// | `@a1:2`, `@a1:2:1`, `!…` | the address `PUBLISH redlatch:w:a1 2`, with ` 1`, with `NONE` |
    pub fn call(&mut self, name: &str, script: &str, keys: &str, args: &str) -> Vec<String> {
        let mut vector = Vector {
            name: name.to_owned(),
            script: script.to_owned(),
            time: self.now.micros(),
            keys: self.words(keys, true),
            args: self.words(args, false),
            before: self.state(),
            reply: Value::Null,
            after: State::new(),
            messages: Vec::new(),
        };
        let (reply, messages) = self.eval(&vector.text(), &vector.keys, &vector.args);
        let items = items(&reply);
        vector.after = self.state();
        vector.reply = reply;
        vector.messages = messages;
        let known = |other: &&Vector| other.script == script && other.name == name;
        assert!(
            self.vectors.iter().find(known).is_none(),
            "{script}: {name}"
        );
        self.vectors.push(vector);
        items
    }

    /// Runs a script as [`call`](Self::call) does, without recording it.
    pub fn run(&mut self, script: &str, keys: &str, args: &str) -> Vec<String> {
        let recorded = mem::take(&mut self.vectors);
        let items = self.call("", script, keys, args);
        self.vectors = recorded;
        items
    }

    /// Runs a text. Returns the reply and the messages.
    ///
    /// # Panics
    ///
    /// Panics if a reply or a message is no text.
    pub fn eval(
        &mut self,
        text: &str,
        keys: &[String],
        args: &[String],
    ) -> (Value, Vec<(String, String)>) {
        let head = Command::new("EVAL").arg(text).arg(keys.len().to_string());
        let command = keys.iter().chain(args).fold(head, Command::arg);
        let reply = match self.execute(&command) {
            Ok(reply) => without_texts(json(&reply)),
            Err(refusal) => error(&refusal.code),
        };
        let deliveries = self.engine.take_deliveries().into_iter();
        let messages = deliveries.filter_map(|delivery| match delivery.push {
            Push::Message { channel, payload } => Some((own(&channel), own(&payload))),
            _ => None,
        });
        (reply, messages.collect())
    }

    /// Fills an empty server.
    pub fn restore(&mut self, state: &State) {
        for (name, key) in state {
            for command in commands(name, key) {
                let command = command[1..]
                    .iter()
                    .fold(Command::new(&command[0]), Command::arg);
                self.execute(&command).expect("a correct state");
            }
        }
    }

    /// Returns all keys.
    pub fn state(&self) -> State {
        let dump = self.engine.dump(self.now);
        dump.iter().map(|key| self.key(key)).collect()
    }

    fn key(&self, dump: &KeyDump) -> (String, Key) {
        let content = match &dump.contents {
            Contents::String(text) => Content::Text(own(text)),
            Contents::Hash(fields) => {
                let fields = fields.iter().map(|(field, value)| (own(field), own(value)));
                Content::Hash(fields.collect())
            }
            Contents::SortedSet(members) => {
                let members = members.iter();
                Content::Sorted(
                    members
                        .map(|(member, at)| (own(member), score(*at)))
                        .collect(),
                )
            }
            other => panic!("no vector can hold {other:?}"),
        };
        let ttl = self.engine.ttl(&dump.key, self.now).flatten();
        let ttl = ttl.map(|ttl| u64::try_from(ttl.as_millis()).expect("ms"));
        (own(&dump.key), Key { content, ttl })
    }

    fn execute(&mut self, command: &Command) -> Reply {
        self.engine.execute(self.session, command, self.now)
    }

    fn words(&self, words: &str, are_keys: bool) -> Vec<String> {
        let words = words.split_whitespace();
        words
            .map(|word| if are_keys { key(word) } else { self.word(word) })
            .collect()
    }

    fn word(&self, word: &str) -> String {
        let address = |verb: &str, rest: &str| {
            let rest = rest.replace(':', " ");
            format!("{verb} redlatch:w:{rest}")
        };
        match word {
            "-" => String::new(),
            "by" => (self.now.millis() + 5000).to_string(),
            "past" => (self.now.millis() - 1).to_string(),
            _ if word.starts_with('@') => address("PUBLISH", &word[1..]),
            _ if word.starts_with("+@") => format!("+{}", address("PUBLISH", &word[2..])),
            _ if word.starts_with('!') => address("NONE", &word[1..]),
            _ if word.starts_with('%') => key(&word[1..]),
            _ => word.replace('~', " "),
        }
    }
}

/// The channels of the recorded calls. The engine has no subscription to patterns.
const CHANNELS: [&str; 9] = [
    "redlatch:w:a1",
    "redlatch:w:b2",
    "redlatch:w:c3",
    "redlatch:w:d4",
    "redlatch:w:e5",
    "redlatch:{n}:b",
    "redlatch:{m}:b",
    "redlatch:setnx?{n}{}",
    "redisson_lock__channel:{n}",
];

/// Returns the commands that create a key.
pub fn commands(name: &str, key: &Key) -> Vec<Vec<String>> {
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    let mut create = match &key.content {
        Content::Text(text) => words(&["SET", name, text]),
        Content::Hash(_) => words(&["HSET", name]),
        Content::Sorted(_) => words(&["ZADD", name]),
    };
    match &key.content {
        Content::Text(_) => {}
        Content::Hash(fields) => {
            for (field, value) in fields {
                create.extend([field.clone(), value.clone()]);
            }
        }
        Content::Sorted(members) => {
            for (member, at) in members {
                create.extend([at.to_string(), member.clone()]);
            }
        }
    }
    let expire = key
        .ttl
        .map(|ttl| words(&["PEXPIRE", name, &ttl.to_string()]));
    [create].into_iter().chain(expire).collect()
}

fn key(word: &str) -> String {
    if let Some(word) = word.strip_prefix('=') {
        return word.to_owned();
    }
    match word.split_once(':') {
        Some((name, part)) => format!("redlatch:{{{name}}}:{part}"),
        None => format!("redlatch:{{{word}}}"),
    }
}

fn own(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Scores are whole and below 2^53.
fn score(score: f64) -> u64 {
    assert!(
        score >= 0.0 && score.fract() == 0.0 && score < 9e15,
        "{score}"
    );
    score as u64
}

fn json(reply: &Raw) -> Value {
    match reply {
        Raw::Nil => Value::Null,
        Raw::Int(number) => (*number).into(),
        Raw::Bulk(text) => own(text).into(),
        Raw::Status(text) => text.as_str().into(),
        Raw::Array(items) => items.iter().map(json).collect(),
        Raw::Error(refusal) => error(&refusal.code),
    }
}

fn items(reply: &Value) -> Vec<String> {
    match reply {
        Value::String(text) => text.split(' ').map(str::to_owned).collect(),
        Value::Array(all) => all.iter().flat_map(items_of).collect(),
        other => vec![other.to_string()],
    }
}

fn items_of(item: &Value) -> Vec<String> {
    match item {
        Value::String(text) => vec![text.clone()],
        other => items(other),
    }
}
