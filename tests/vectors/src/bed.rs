//! An embedded engine on which vectors are recorded and replayed.

use std::{collections::BTreeMap, time::Duration};

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
    /// What the words of scenes stand for.
    defined: BTreeMap<String, String>,
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
            defined: BTreeMap::new(),
        }
    }

    /// Returns what was recorded.
    pub fn finish(self) -> Vec<Vector> {
        self.vectors
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

    /// Plays the steps of a scene, one a line.
    ///
    /// | line | step |
    /// |---|---|
    /// | `SET n 1` | a plain command |
    /// | `pass 20`, `back 20`, `clock 999`, `clear` | ms pass or come back, µs to begin at, no key |
    /// | `fair/force(n n:q) by` | a script with its keys and arguments, see [`call`](Self::call) |
    /// | `… \| a name` | the same, recorded |
    /// | `… -> _ busy $left` | items that the reply has: any, this one, and one to remember |
    /// | `define wait fair/acquire(n) by $1` | a word that stands for the rest of its line |
    /// | `wait a1` | that text with the arguments, which are behind it if it has no `$1` |
    /// | `times 65 wait b2 $at` | the step 65 times, with a new `$at` each time: see `repeat` |
    /// | `each set reset: *-one by` | the step for each word in the place of `*` |
    /// | `# words` | a comment |
    ///
    /// `$left` is what is remembered or defined. A line that ends with `\` continues in the next.
    ///
    /// # Panics
    ///
    /// Panics if a reply has other items.
    pub fn play(&mut self, scene: &str) {
        let mut whole = String::new();
        for line in scene.lines().map(str::trim) {
            match line.strip_suffix('\\') {
                Some(begun) => whole += begun,
                None => whole = whole + line + "\n",
            }
        }
        let is_step = |line: &&str| !line.is_empty() && !line.starts_with('#');
        for line in whole.lines().filter(is_step) {
            match line.split_once(' ') {
                Some(("define", definition)) => {
                    let (word, text) = definition.split_once(' ').expect("a word and its text");
                    self.define(word, text);
                }
                Some(("times", rest)) => {
                    let (count, step) = rest.split_once(' ').expect("a number and a step");
                    self.repeat(count.parse().expect("a number"), step);
                }
                Some(("each", rest)) => {
                    let (words, step) = rest.split_once(": ").expect("words and a step");
                    for word in words.split(' ') {
                        self.play_line(&step.replace('*', word));
                    }
                }
                _ => self.play_line(line),
            }
        }
    }

    fn define(&mut self, word: &str, text: impl ToString) {
        self.defined.insert(word.to_owned(), text.to_string());
    }

    /// Plays a step `count` times. `$at` counts from 1, `$even` and `$odd` by two from 2 and 3, and
    /// `$micros` from 1700000000000001.
    fn repeat(&mut self, count: u64, step: &str) {
        for at in 1..=count {
            self.define("at", at);
            self.define("even", 2 * at);
            self.define("odd", 2 * at + 1);
            self.define("micros", 1_700_000_000_000_000 + at);
            self.play_line(step);
        }
    }

    fn play_line(&mut self, line: &str) {
        let (step, items) = line.split_once(" -> ").unwrap_or((line, ""));
        let (step, name) = step.split_once(" | ").unwrap_or((step, ""));
        let first = step.split(' ').next().unwrap_or_default();
        let is_call = step.contains('(') || self.defined.contains_key(first);
        assert!(name.is_empty() || is_call, "{line}: it is no script");
        assert!(!step.contains("->") && !step.contains('|'), "{line}");
        let reply = self.step(step, name);
        let mut reply = reply.iter();
        for item in items.split_whitespace() {
            let found = reply.next().unwrap_or_else(|| panic!("{line}: no {item}"));
            self.meet(item, found);
        }
    }

    fn step(&mut self, step: &str, name: &str) -> Vec<String> {
        let (first, rest) = step.split_once(' ').unwrap_or((step, ""));
        let step = match self.defined.get(first).cloned() {
            Some(text) if text.contains("$1") => {
                let mut words = rest.split(' ');
                for at in 1..=5 {
                    let word = words.next();
                    let is_missing = word.is_none() && text.contains(&format!(" ${at}"));
                    assert!(!is_missing, "{step}: it has no ${at}");
                    let word = self.filled(word.unwrap_or_default());
                    self.define(&at.to_string(), word);
                }
                assert_eq!(words.next(), None, "{step}");
                self.filled(&text)
            }
            Some(text) => self.filled(&format!("{text} {rest}")),
            None => self.filled(step),
        };
        let number = || rest.parse().expect("a number");
        match first {
            "pass" => self.now = self.now.after(Duration::from_millis(number())),
            "back" => self.now = self.now.before(Duration::from_millis(number())),
            "clock" => self.set_micros(number()),
            "clear" => self.clear(),
            _ => match step.split_once('(') {
                Some((script, rest)) => {
                    let (keys, args) = rest.split_once(')').expect("keys");
                    return self.call(name, script, keys, args);
                }
                None => self.put(&step),
            },
        }
        Vec::new()
    }

    /// Puts what is remembered and defined in the place of its words.
    fn filled(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_end = |c: char| !c.is_ascii_alphanumeric();
            let (word, rest) = part.split_at(part.find(is_end).unwrap_or(part.len()));
            let known = self.defined.get(word);
            let known = known.unwrap_or_else(|| panic!("{text}: {word} is unknown"));
            filled += &self.filled(known);
            filled += rest;
        }
        filled
    }

    /// Compares an item of a reply, each of its parts between dots, or remembers it.
    fn meet(&mut self, item: &str, found: &str) {
        if let Some((first, rest)) = item.split_once('.') {
            let (found, others) = found.split_once('.').expect("parts");
            self.meet(first, found);
            self.meet(rest, others);
        } else if let Some(word) = item.strip_prefix('$') {
            self.define(word, found);
        } else {
            assert!(item == "_" || item == found, "{found}, not {item}");
        }
    }

    /// Runs a plain command, its words separated by white space. See [`call`](Self::call) for the
    /// short forms.
    pub fn put(&mut self, words: &str) {
        let words = self.words(words, false);
        self.execute_words(&words);
    }

    /// Runs a script, and records the call if it has a name. Returns the items of the reply; a
    /// text's are its words.
    ///
    /// `keys` and `args` are words with short forms:
    ///
    /// | word | stands for |
    /// |---|---|
    /// | key `n`, `n:q` | `redlatch:{n}`, `redlatch:{n}:q`; `=data` is the key `data` |
    /// | `-`, `~` in a word | an empty text, a space |
    /// | `by`, `soon`, `past` | the server's time + 5 s, + 4 s, and − 1 ms |
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
        if !name.is_empty() {
            let known = |other: &Vector| other.script == script && other.name == name;
            assert!(!self.vectors.iter().any(known), "{script}: {name}");
            self.vectors.push(vector);
        }
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
            Ok(reply) => without_texts(as_json(&reply)),
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
                self.execute_words(&command);
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

    fn execute_words(&mut self, words: &[String]) {
        let head = Command::new(&words[0]);
        let command = words[1..].iter().fold(head, Command::arg);
        self.execute(&command).expect("a correct command");
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
            "soon" => (self.now.millis() + 4000).to_string(),
            _ if word.starts_with('@') => address("PUBLISH", &word[1..]),
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
    let (verb, values): (_, Vec<_>) = match &key.content {
        Content::Text(text) => ("SET", vec![text.clone()]),
        Content::Hash(fields) => {
            let pairs = fields
                .iter()
                .map(|(field, value)| [field.clone(), value.clone()]);
            ("HSET", pairs.flatten().collect())
        }
        Content::Sorted(members) => {
            let pairs = members
                .iter()
                .map(|(member, at)| [at.to_string(), member.clone()]);
            ("ZADD", pairs.flatten().collect())
        }
    };
    let create = [&[verb.to_owned(), name.to_owned()], &values[..]].concat();
    let expire = |ttl: u64| vec!["PEXPIRE".to_owned(), name.to_owned(), ttl.to_string()];
    [create].into_iter().chain(key.ttl.map(expire)).collect()
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
    let is_whole = score >= 0.0 && score.fract() == 0.0 && score < 9e15;
    assert!(is_whole, "{score}");
    score as u64
}

/// Returns a reply as vectors hold it.
///
/// # Panics
///
/// Panics if a string is no text.
pub fn as_json(reply: &Raw) -> Value {
    match reply {
        Raw::Nil => Value::Null,
        Raw::Int(number) => (*number).into(),
        Raw::Bulk(text) => own(text).into(),
        Raw::Status(text) => text.as_str().into(),
        Raw::Array(items) => items.iter().map(as_json).collect(),
        Raw::Error(refusal) => error(&refusal.code),
    }
}

fn items(reply: &Value) -> Vec<String> {
    match reply {
        Value::String(text) => text.split([' ', '\n']).map(str::to_owned).collect(),
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
