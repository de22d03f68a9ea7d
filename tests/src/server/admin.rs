//! Administration and inspection of a server by tests, from outside the library.

use std::{
    collections::BTreeMap,
    io, thread,
    time::{Duration, Instant},
};

use super::Server;
use crate::wait::{GENEROUS, eventually_blocking};

/// The type of connections that [`Server::client_kill`] closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientType {
    /// Connections that send commands.
    Normal,
    /// Connections with subscriptions.
    PubSub,
    /// The replicas' connections, at a master.
    Replica,
}

/// Administration and inspection. All of it panics when the server answers with an error.
///
/// Each call uses its own connection, which the server's counters of connections and commands
/// include.
impl Server {
    /// Deletes all keys.
    #[track_caller]
    pub fn flushall(&self) {
        self.command(&["FLUSHALL"]).unwrap();
    }

    /// Removes all scripts from the server.
    #[track_caller]
    pub fn script_flush(&self) {
        self.command(&["SCRIPT", "FLUSH"]).unwrap();
    }

    /// Changes a parameter of the running server. A restart resets it.
    #[track_caller]
    pub fn config_set(&self, name: &str, value: &str) {
        self.command(&["CONFIG", "SET", name, value]).unwrap();
    }

    /// Waits until nobody is connected but sentinels, other servers, and this call. Closes the
    /// connections that are left after 5 s.
    #[track_caller]
    pub fn part_from_clients(&self) {
        let start = Instant::now();
        loop {
            let list = self.command(&["CLIENT", "LIST"]).unwrap().text();
            let left: Vec<_> = list.lines().filter(|line| is_of_a_test(line)).collect();
            if left.is_empty() {
                return;
            }
            if start.elapsed() > Duration::from_secs(5) {
                for id in left.iter().map(|line| field_of(line, "id")) {
                    // It may have gone by itself.
                    self.command(&["CLIENT", "KILL", "ID", id]).unwrap();
                }
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes all connections of a type except that of this call, and returns their number.
    #[track_caller]
    pub fn client_kill(&self, kind: ClientType) -> usize {
        let killed = self.command(&["CLIENT", "KILL", "TYPE", kind.name()]);
        usize::try_from(killed.unwrap().int()).expect("a count")
    }

    /// Returns the number of calls of each command, by its name in lower case. `calls["evalsha"]`
    /// panics if there was none.
    ///
    /// Commands inside scripts count too.
    #[track_caller]
    pub fn commandstats(&self) -> BTreeMap<String, u64> {
        let calls_of = |(name, value): (String, String)| {
            // `cmdstat_evalsha:calls=3,usec=12,…`
            let mut parts = value.split(',');
            let calls = parts.find_map(|part| part.strip_prefix("calls="))?;
            let name = name.strip_prefix("cmdstat_")?.to_owned();
            Some((name, calls.parse().ok()?))
        };
        let stats = self.info("commandstats").into_iter();
        stats.filter_map(calls_of).collect()
    }

    /// Returns how many scripts clients have called, by EVALSHA and EVAL.
    #[track_caller]
    pub fn script_calls(&self) -> u64 {
        let stats = self.commandstats();
        let calls = ["evalsha", "eval"].iter();
        calls.filter_map(|name| stats.get(*name)).sum()
    }

    /// Sets the counters of [`commandstats`](Self::commandstats) and of `INFO stats` to zero.
    #[track_caller]
    pub fn reset_stats(&self) {
        self.command(&["CONFIG", "RESETSTAT"]).unwrap();
    }

    /// Returns a section of `INFO`, field → value. If the connection was closed, it asks again over
    /// another one: a sentinel that makes a server a replica closes all its connections.
    #[track_caller]
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        let closed = |error: &io::Error| {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
            matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
        };
        let mut replies = (0..=REOPENED).map(|_| self.try_command(&["INFO", section]));
        let reply = replies.find(|reply| !reply.as_ref().is_err_and(closed));
        let reply = reply.expect("one is answered").expect("INFO works");
        let text = reply.unwrap().text();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let owned = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        owned.collect()
    }

    /// Tells whether this is a master, or a replica in step with its master.
    pub(super) fn is_in_step(&self) -> bool {
        let state = self.info("replication");
        state["role"] == "master" || state["master_link_status"] == "up"
    }

    /// Waits until this replica is in step and has all data that `master` has at this moment.
    ///
    /// # Panics
    ///
    /// Panics if it does not catch up within [`GENEROUS`].
    #[track_caller]
    pub fn catch_up_with(&self, master: &Self) {
        let offset = |state: &BTreeMap<String, String>, field: &str| {
            state[field].parse::<u64>().expect("an offset")
        };
        let wanted = offset(&master.info("replication"), "master_repl_offset");
        eventually_blocking("the replica to catch up", GENEROUS, || {
            let state = self.info("replication");
            let up = state["master_link_status"] == "up";
            (up && offset(&state, "slave_repl_offset") >= wanted).then_some(())
        });
    }

    /// Returns all keys of database 0, sorted. In keys that are not UTF-8, the replacement
    /// character stands for the invalid bytes.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let keys = self.command(&["KEYS", "*"]).unwrap().array();
        let mut keys: Vec<_> = keys.into_iter().map(super::Reply::text).collect();
        keys.sort();
        keys
    }

    /// Returns the bytes in use.
    #[track_caller]
    pub fn used_memory(&self) -> u64 {
        let used = &self.info("memory")["used_memory"];
        used.parse().expect("a number of bytes")
    }
}

impl ClientType {
    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::PubSub => "pubsub",
            Self::Replica => "replica",
        }
    }
}

/// The number of times that one inspection is repeated, each over another connection.
const REOPENED: usize = 10;

/// Tells whether a line of `CLIENT LIST` is about a client of a test.
fn is_of_a_test(line: &str) -> bool {
    let is_server = field_of(line, "flags").contains(['S', 'M']);
    let asks = field_of(line, "cmd").starts_with("client");
    !is_server && !asks && !field_of(line, "name").starts_with("sentinel-")
}

/// Returns a field of a line of `CLIENT LIST`.
fn field_of<'a>(line: &'a str, name: &str) -> &'a str {
    let mut fields = line.split(' ');
    let value = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_tests_are_told_from_servers_and_from_the_asking_call() {
        for (flags, name, cmd, expected) in [
            ("N", "", "evalsha", true),
            ("P", "redlatch", "subscribe", true),
            ("N", "", "client|list", false),
            ("N", "", "client", false),
            ("S", "", "replconf", false),
            ("M", "", "NULL", false),
            ("N", "sentinel-1f-cmd", "ping", false),
        ] {
            let line = format!("id=7 addr=127.0.0.1:1 name={name} age=0 flags={flags} cmd={cmd}");
            assert_eq!(is_of_a_test(&line), expected, "{line}");
            assert_eq!(field_of(&line, "id"), "7");
        }
    }
}
