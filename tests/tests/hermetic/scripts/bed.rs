//! An engine, a clock that tests step, and calls of scripts in the words of their headers.

use std::fmt;

use redlatch::runtime::{Push, Reply, ServerError, Value};
use redlatch_embedded::engine::{KeyDump, SessionId, SessionKind};
use redlatch_lua::REENTRANT;

use super::{lent::Lent, prelude::*};

/// One call of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) script: &'static Source,
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<String>,
}

impl Call {
    pub(crate) fn new(script: &'static Source, keys: Vec<String>, args: &[&str]) -> Self {
        let args = text(args);
        Self { script, keys, args }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:?}", self.script.name, self.keys, self.args)
    }
}

/// The items of a reply, numbers as their text, and nothing as an empty text.
pub(crate) type Answer = Result<Vec<String>, ServerError>;

pub(crate) struct Bed {
    pub(crate) engine: Lent,
    pub(crate) now: ServerTime,
    session: SessionId,
    /// Of the scripts that this bed has loaded, by name.
    digests: BTreeMap<&'static str, String>,
}

impl Bed {
    pub(crate) fn new(model: Model) -> Self {
        let now = ServerTime::from_micros(1_700_000_000_123_456);
        let mut engine = Lent::new(model, now);
        let session = engine.open(SessionKind::Command);
        let mut bed = Self {
            engine,
            now,
            session,
            digests: BTreeMap::new(),
        };
        bed.listen(&CHANNELS);
        bed
    }

    /// Listens to more channels, and forgets what was published before.
    pub(crate) fn listen(&mut self, channels: &[&str]) {
        let ears = self.engine.open(SessionKind::PubSub);
        let head = Command::new("SUBSCRIBE");
        let subscribe = channels.iter().fold(head, Command::arg);
        let now = self.now;
        self.engine.execute(ears, &subscribe, now).unwrap();
        self.engine.take_deliveries();
    }

    /// Gives the script `name` another text, in this bed only.
    pub(crate) fn replace(&mut self, name: &'static str, text: &str) {
        let load = Command::new("SCRIPT").arg("LOAD").arg(text);
        let digest = self.execute(&load).unwrap();
        let digest = digest.as_str().unwrap().to_owned();
        self.digests.insert(name, digest);
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// The server's time in ms, as scripts speak of it.
    pub(crate) fn millis(&self) -> u64 {
        self.now.millis()
    }

    pub(crate) fn execute(&mut self, command: &Command) -> Reply {
        self.engine.execute(self.session, command, self.now)
    }

    /// Runs a script, and returns the items of its reply. Of a reply with a line per entry, these
    /// are the time, and the other items of each line.
    pub(crate) fn call(&mut self, call: &Call) -> Answer {
        let reply = self.reply(call)?;
        let Some(text) = reply.as_str() else {
            return Ok(items(&reply));
        };
        // Each line begins with the same time.
        let time = text.split(' ').next().unwrap();
        let lines = text.split('\n').map(|line| line.strip_prefix(time));
        let words = lines.flat_map(|line| line.unwrap().split(' ').skip(1));
        let words = std::iter::once(time).chain(words);
        Ok(words.map(str::to_owned).collect())
    }

    /// Runs a script with several entries, and returns the line of each.
    #[track_caller]
    pub(crate) fn lines(&mut self, call: &Call) -> Vec<String> {
        let reply = self.reply(call).unwrap();
        let lines = reply.as_str().unwrap().split('\n');
        lines.map(str::to_owned).collect()
    }

    fn reply(&mut self, call: &Call) -> Reply {
        let script = call.script;
        if !self.digests.contains_key(script.name) {
            self.replace(script.name, script.text);
        }
        let head = Command::new("EVALSHA")
            .arg(&self.digests[script.name])
            .arg(call.keys.len().to_string());
        let command = call.keys.iter().chain(&call.args).fold(head, Command::arg);
        self.execute(&command)
    }

    /// Runs a script that the server must not refuse.
    #[track_caller]
    pub(crate) fn ask(&mut self, call: &Call) -> Vec<String> {
        self.call(call).unwrap()
    }

    /// Runs a script that answers with this verdict.
    #[track_caller]
    pub(crate) fn gets(&mut self, call: &Call, verdict: &str) -> Vec<String> {
        let answer = self.ask(call);
        assert_eq!(answer[1], verdict, "{call}: {answer:?}");
        answer
    }

    /// Returns the channels and payloads of what was published since the last call.
    pub(crate) fn published(&mut self) -> Vec<(String, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let deliveries = self.engine.take_deliveries().into_iter();
        let messages = deliveries.filter_map(|delivery| match delivery.push {
            Push::Message { channel, payload } => Some((text(channel), text(payload))),
            _ => None,
        });
        messages.collect()
    }

    pub(crate) fn hash(&mut self, key: &str) -> BTreeMap<String, String> {
        self.pairs(&Command::new("HGETALL").arg(key))
    }

    /// Returns the members of a sorted set with their scores.
    pub(crate) fn sorted(&mut self, key: &str) -> BTreeMap<String, u64> {
        let range = Command::new("ZRANGE").arg(key).arg("0").arg("-1");
        let pairs = self.pairs(&range.arg("WITHSCORES")).into_iter();
        pairs
            .map(|(member, score)| (member, score.parse().unwrap()))
            .collect()
    }

    fn pairs(&mut self, command: &Command) -> BTreeMap<String, String> {
        let items = items(&self.execute(command).unwrap());
        let pairs = items.chunks(2);
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    }

    /// Returns the members of a queue with their tickets, in order.
    pub(crate) fn queue(&mut self, key: &str) -> Vec<(String, u64)> {
        let mut queue: Vec<_> = self.sorted(key).into_iter().collect();
        queue.sort_by_key(|(_, ticket)| *ticket);
        queue
    }

    /// Returns how long `key` lives on, in ms; `None` if it is not there.
    ///
    /// # Panics
    ///
    /// If it has no end.
    #[track_caller]
    pub(crate) fn ttl(&self, key: &str) -> Option<u64> {
        let ttl = self.engine.ttl(key.as_bytes(), self.now)?;
        let ttl = ttl.unwrap_or_else(|| panic!("{key} has no end"));
        Some(u64::try_from(ttl.as_millis()).unwrap())
    }

    pub(crate) fn dump(&self) -> Vec<KeyDump> {
        self.engine.dump(self.now)
    }
}

pub(crate) fn text(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

/// Returns a number as its text, and nothing as an empty text.
pub(crate) fn optional(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// Splits an id into its client and `:<n>`.
pub(crate) fn parts(id: &str) -> (String, String) {
    let (client, number) = id.split_at(id.find(':').unwrap_or_default());
    (client.to_owned(), number.to_owned())
}

fn items(reply: &Value) -> Vec<String> {
    let items = reply.as_array().unwrap().iter();
    items
        .map(|item| match item {
            Value::Int(number) => number.to_string(),
            Value::Nil => String::new(),
            other => other.as_str().unwrap().to_owned(),
        })
        .collect()
}

/// The key that decides about `name`; the names here share a slot.
pub(crate) fn key(name: &str) -> String {
    format!("p:{{t}}{name}")
}

/// The key with a part of `name`: `q` has those who wait, `l` their clients.
pub(crate) fn part(name: &str, part: &str) -> String {
    format!("{}:{part}", key(name))
}

/// The channels that wakes in these tests go to.
pub(crate) const CHANNELS: [&str; 2] = ["w:a", "w:b"];

#[test]
fn bed_on_a_used_engine_is_as_empty_as_the_first_one() {
    let look = Call::new(&REENTRANT.inspect, vec![key("x"), part("x", "q")], &[]);
    let hello = Command::new("PUBLISH").arg("other").arg("hello");
    for model in Model::ALL {
        let mut bed = Bed::new(model);
        let (session, begun) = (bed.session, bed.now);
        assert_eq!(bed.ask(&look)[1], "free");
        bed.replace(look.script.name, "return {'0', 'planted'}");
        assert_eq!(bed.ask(&look)[1], "planted");
        let planted = bed.digests[look.script.name].clone();
        bed.pass(Duration::from_secs(60));
        bed.execute(&Command::new("SET").arg("p:{t}y").arg("1"))
            .unwrap();
        let (ears, now) = (bed.engine.open(SessionKind::PubSub), bed.now);
        let other = Command::new("SUBSCRIBE").arg("other");
        bed.engine.execute(ears, &other, now).unwrap();
        bed.engine.set_condition(Condition::Full, true);
        bed.engine.set_script_step(Duration::ZERO);
        drop(bed);

        let mut bed = Bed::new(model);
        assert_eq!((bed.session, bed.now), (session, begun));
        assert_eq!(bed.dump(), []);
        assert_eq!(bed.engine.command_counts().len(), 1, "SUBSCRIBE");
        let stale = Command::new("EVALSHA").arg(planted).arg("0");
        assert_eq!(bed.execute(&stale).unwrap_err().code, "NOSCRIPT");
        assert_eq!(bed.ask(&look)[1], "free", "as its text says");
        assert_eq!(bed.execute(&hello), Ok(Value::Int(0)), "nobody listens");
        let write = Command::new("SET").arg("p:{t}y").arg("1");
        assert!(bed.execute(&write).is_ok(), "it has room");
    }
}
