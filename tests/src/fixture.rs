//! What the fault tests have in common.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redlatch::{Client, Lock, LockGuard};
use redlatch_lua::Source;

use crate::{
    backend::Backend,
    proxy::{Pick, Request},
    server::Server,
    wait::{GENEROUS, eventually},
};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// The key of a name without a hash tag.
pub fn key(name: &str) -> String {
    format!("redlatch:{{{name}}}")
}

/// The clock that servers on this machine read, in milliseconds.
pub fn wall_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Until when the server gives `name` to its holder, in milliseconds of its clock.
pub fn held_until(server: &Server, name: &str) -> u64 {
    let until = server.command(&["HGET", &key(name), "u"]).text();
    until.parse().unwrap()
}

/// Puts all scripts on the server, so that clients' EVALSHA are what runs them.
pub fn preload(server: &Server) {
    for script in redlatch_lua::all() {
        sha(server, script);
    }
}

/// Picks calls of `script` for `name`, which the server must have.
pub fn call(server: &Server, script: &Source, name: &str) -> Pick {
    let (sha, key) = (sha(server, script), key(name));
    Pick::matching(move |request: &Request| request.contains(&sha) && request.contains(&key))
}

fn sha(server: &Server, script: &Source) -> String {
    server.command(&["SCRIPT", "LOAD", script.text]).text()
}

/// Waits until the server knows that somebody waits for `name`.
pub async fn registered(backend: &Backend, name: &str) {
    let queue = format!("{}:q", key(name));
    eventually("a waiter to register", GENEROUS, async || {
        backend.server().command(&["ZCARD", &queue]).unwrap().int() > 0
    })
    .await;
}

/// Starts to wait for a lock in a task of its own.
pub fn waiting(lock: Lock) -> tokio::task::JoinHandle<LockGuard> {
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

/// Waits until the clients have nothing in their tables, then checks that nothing but counters is
/// on the server.
pub async fn assert_nothing_left(backend: &Backend, clients: &[&Client]) {
    for client in clients {
        eventually("the client's tables to be empty", GENEROUS, async || {
            client.tables() == redlatch::Tables::default()
        })
        .await;
    }
    backend.assert_only_counters_left();
}
