//! A master and its replicas.

use super::{Server, ServerBinary, ServerOptions, url_of};
use crate::wait::{GENEROUS, eventually_blocking};

/// A master with replicas that belongs to a test. Only the test fails it over.
#[derive(Debug)]
pub struct Replicated {
    servers: Vec<Server>,
}

impl Replicated {
    /// Starts a master and `replicas` replicas, and returns when the replicas are in step.
    ///
    /// # Panics
    ///
    /// Panics if they do not come up.
    #[track_caller]
    pub fn start(binary: &ServerBinary, replicas: usize, options: &ServerOptions) -> Self {
        let options = options.clone().config("repl-diskless-sync-delay 0");
        let master = Server::start(binary, options.clone());
        let options = options.config(format!("replicaof 127.0.0.1 {}", master.port()));
        let mut servers = vec![master];
        servers.extend(Server::start_all(binary, vec![options; replicas]));
        let replicated = Self { servers };
        replicated.await_in_step();
        replicated
    }

    /// Returns `redis+replicas://` with the addresses of all servers.
    pub fn url(&self) -> String {
        url_of("redis+replicas", &self.servers)
    }

    /// Returns all servers: first the one that was the master at the start.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the server that reports itself as the master, of those that answer.
    #[track_caller]
    pub fn master(&self) -> &Server {
        let mut masters = self.servers.iter().filter(|server| {
            let role = server.try_command(&["ROLE"]);
            role.is_ok_and(|role| role.array()[0].clone().text() == "master")
        });
        masters.next().expect("one of them is the master")
    }

    /// Makes server number `to` the master, and the other servers that answer its replicas, as an
    /// administrator would.
    #[track_caller]
    pub fn promote(&self, to: usize) {
        let port = self.servers[to].port().to_string();
        let promoted = self.servers[to].command(&["REPLICAOF", "NO", "ONE"]);
        promoted.unwrap();
        for (at, server) in self.servers.iter().enumerate() {
            if at != to && server.connect().is_ok() {
                server.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
            }
        }
    }

    /// Waits until all running replicas are in step with their master.
    #[track_caller]
    pub fn await_in_step(&self) {
        eventually_blocking("the replicas to be in step", GENEROUS, || {
            let in_step = self.servers.iter().all(Server::is_in_step);
            in_step.then_some(())
        });
    }
}
