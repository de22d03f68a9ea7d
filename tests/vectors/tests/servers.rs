//! The stored vectors, replayed on every real server. The time in the script is that of the vector,
//! and all else is the server's: replies, data and messages are equal to the recorded ones. The TTL
//! of a key may be less by the time that the replay took.

// Tests say what they expect, and real servers need a real clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]
#![cfg(unix)]

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use redlatch_tests::{
    backend::value,
    on_every_server,
    server::{Connection, Reply, Server, ServerBinary, ServerOptions},
};
use redlatch_vectors::{Content, Key, State, Vector, as_json, commands, stored, without_texts};
use serde_json::Value;

async fn vectors_are_the_same_on_a_real_server(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::default());
    let mut replayer = Replayer::connect(server.address());
    for vector in stored() {
        replayer.replay(&vector);
    }
}

on_every_server!(vectors_are_the_same_on_a_real_server);

/// Scripts that reply what is left of a key's life: those for the layouts of other libraries, which
/// keep a lease in that way, and the one that waits for remembered operations. Only the server's
/// own clock, which goes on, counts it.
const LIVES: [&str; 3] = ["setnx/", "redisson/", "core/forget"];

/// Returns `reply` with the recorded number in the place of each that is less by `took` at most, if
/// it is a number of milliseconds: a second or more.
fn as_recorded(reply: Value, recorded: &Value, took: u64) -> Value {
    match (reply, recorded) {
        (Value::Array(items), Value::Array(recorded)) if items.len() == recorded.len() => {
            let pairs = items.into_iter().zip(recorded);
            let items = pairs.map(|(item, recorded)| as_recorded(item, recorded, took));
            Value::Array(items.collect())
        }
        (Value::Number(number), Value::Number(recorded)) => {
            let close = number.as_u64().zip(recorded.as_u64());
            let close = close.is_some_and(|(number, recorded)| {
                recorded >= 1_000 && (recorded.saturating_sub(took)..=recorded).contains(&number)
            });
            Value::Number(if close { recorded.clone() } else { number })
        }
        (reply, _) => reply,
    }
}

struct Replayer {
    commands: Connection,
    messages: Connection,
}

impl Replayer {
    fn connect(address: SocketAddr) -> Self {
        let open = || Connection::open(address, Duration::from_secs(20)).unwrap();
        let mut messages = open();
        messages.command(&["PSUBSCRIBE", "*"]).unwrap().unwrap();
        Self {
            commands: open(),
            messages,
        }
    }

    fn replay(&mut self, vector: &Vector) {
        let title = vector.title();
        self.command(&["FLUSHALL"]).unwrap();
        let begun = Instant::now();
        for (name, key) in &vector.before {
            for command in commands(name, key) {
                self.command(&command).unwrap();
            }
        }
        let mut call = vec!["EVAL".to_owned(), vector.text()];
        call.push(vector.keys.len().to_string());
        call.extend(vector.keys.iter().chain(&vector.args).cloned());
        let reply = without_texts(as_json(&value(self.command(&call))));
        let reply = if LIVES.iter().any(|kind| vector.script.starts_with(kind)) {
            let took = u64::try_from(begun.elapsed().as_millis()).unwrap() + 1;
            as_recorded(reply, &vector.reply, took)
        } else {
            reply
        };
        assert_eq!(reply, vector.reply, "the reply of {title}");
        let after = self.state();
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap() + 1;
        compare(&after, &vector.after, took, &title);
        self.command(&["PUBLISH", END, ""]).unwrap();
        assert_eq!(self.published(), vector.messages, "messages of {title}");
    }

    fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        self.commands.command(args).unwrap()
    }

    fn state(&mut self) -> State {
        let keys = self.command(&["KEYS", "*"]).unwrap().array();
        let names = keys.into_iter().map(Reply::text);
        names.map(|name| (name.clone(), self.key(&name))).collect()
    }

    fn key(&mut self, name: &str) -> Key {
        let content = match self.command(&["TYPE", name]).text().as_str() {
            "string" => Content::Text(self.command(&["GET", name]).text()),
            "hash" => Content::Hash(self.pairs(&["HGETALL", name])),
            "zset" => {
                let members = self.pairs(&["ZRANGE", name, "0", "-1", "WITHSCORES"]);
                let members = members.into_iter();
                Content::Sorted(
                    members
                        .map(|(name, at)| (name, at.parse().unwrap()))
                        .collect(),
                )
            }
            other => panic!("{name} is a {other}"),
        };
        let ttl = u64::try_from(self.command(&["PTTL", name]).int()).ok();
        Key { content, ttl }
    }

    fn pairs(&mut self, command: &[&str]) -> BTreeMap<String, String> {
        let items = self.command(command).unwrap().array();
        let items: Vec<_> = items.into_iter().map(Reply::text).collect();
        let pairs = items.chunks(2);
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    }

    /// Returns the messages up to the one that ends the vector.
    fn published(&mut self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        loop {
            let mut push = self.messages.read_reply().unwrap().array().into_iter();
            // The kind, and the pattern.
            push.next();
            push.next();
            let (channel, text) = (push.next().unwrap().text(), push.next().unwrap().text());
            if channel == END {
                return found;
            }
            found.push((channel, text));
        }
    }
}

/// A channel that no script uses. Messages of one connection arrive in order.
const END: &str = "end";

fn compare(found: &State, expected: &State, took: u64, title: &str) {
    let values = |state: &State| {
        let keys = state.iter();
        keys.map(|(name, key)| (name.clone(), key.content.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(values(found), values(expected), "the state after {title}");
    for (name, key) in expected {
        match (found[name].ttl, key.ttl) {
            (Some(found), Some(expected)) => {
                let near = (expected.saturating_sub(took)..=expected).contains(&found);
                assert!(
                    near,
                    "{title}: {name} lives for {found} ms, not for {expected}"
                );
            }
            (found, expected) => assert_eq!(found, expected, "{title}: the TTL of {name}"),
        }
    }
}
