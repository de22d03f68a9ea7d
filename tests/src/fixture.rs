//! Helpers that the fault tests share.

use std::time::Duration;

use redlatch::{Client, Lock, LockGuard};
use redlatch_lua::Source;

use crate::{
    backend::Backend,
    proxy::{Pick, Request},
    server::Server,
    wait::wait_for,
};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// Returns the rights that the page about rights gives a user, without the quotes and the line ends
/// of its shell.
pub fn documented_rights() -> String {
    let page = include_str!("../../docs/book/src/how-to/rights.md");
    let (_, text) = page.split_once("ACL SETUSER app on '>secret' ").unwrap();
    let (rights, _) = text.split_once("```").unwrap();
    let rights = rights.replace(['\'', '\\'], "");
    rights.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the key of a name without a hash tag.
pub fn key(name: &str) -> String {
    format!("redlatch:{{{name}}}")
}

/// Returns the end of the hold of `name`, in milliseconds of the server's clock.
pub fn held_until(server: &Server, name: &str) -> u64 {
    let until = server.command(&["HGET", &key(name), "u"]).text();
    until.parse().unwrap()
}

/// Loads all scripts on the server, so that clients run them with EVALSHA.
pub fn preload(server: &Server) {
    for script in redlatch_lua::all() {
        sha(server, script);
    }
}

/// Picks calls of `script` for `name`. The server must know the script.
pub fn call(server: &Server, script: &Source, name: &str) -> Pick {
    let (sha, key) = (sha(server, script), key(name));
    Pick::matching(move |request: &Request| request.contains(&sha) && request.contains(&key))
}

/// Picks the script by which `connect` tries all commands. The server knows the script from now on.
pub fn probe(server: &Server) -> Pick {
    Pick::containing(sha(server, &redlatch_lua::CORE.probe))
}

fn sha(server: &Server, script: &Source) -> String {
    server.command(&["SCRIPT", "LOAD", script.text]).text()
}

/// Waits until a waiter for `name` is registered on the server.
pub async fn registered(backend: &Backend, name: &str) {
    let queue = format!("{}:q", key(name));
    wait_for("a waiter to register", async || backend.members(&queue) > 0).await;
}

/// Checks that connecting has failed and left neither keys nor connections.
pub async fn assert_untouched(server: &Server) {
    assert_eq!(server.keys(), [""; 0]);
    wait_for("the connections to go", async || {
        // The one that asks.
        server.info("clients")["connected_clients"] == "1"
    })
    .await;
}

/// Starts a task that waits for a lock.
pub fn waiting(lock: Lock) -> tokio::task::JoinHandle<LockGuard> {
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

/// Waits until the clients' tables are empty, then checks that the server holds only counters.
pub async fn assert_nothing_left(backend: &Backend, clients: &[&Client]) {
    for client in clients {
        let empty = async || client.tables() == redlatch::Tables::default();
        wait_for("the client's tables to be empty", empty).await;
    }
    backend.assert_only_counters_left();
}
