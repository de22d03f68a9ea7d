//! Sentinels over a master and its replicas.

use std::time::Duration;

use super::{Replicated, Server, ServerBinary, ServerOptions, url_of};
use crate::wait::{GENEROUS, eventually_blocking};

/// Three sentinels, a master and its replicas, which belong to a test.
#[derive(Debug)]
pub struct SentinelGroup {
    sentinels: Vec<Server>,
    replicated: Replicated,
}

impl SentinelGroup {
    /// The name of the master in the sentinels.
    pub const SERVICE: &str = "main";

    /// Starts the servers, and returns when the sentinels know each other and the replicas.
    ///
    /// # Panics
    ///
    /// Panics if they do not come up.
    #[track_caller]
    pub fn start(
        binary: &ServerBinary,
        replicas: usize,
        down_after: Duration,
        options: &ServerOptions,
    ) -> Self {
        Self::start_with(binary, replicas, down_after, options, ServerOptions::new())
    }

    /// Starts the servers as [`start`](Self::start) does, with options for the sentinels too.
    #[track_caller]
    pub fn start_with(
        binary: &ServerBinary,
        replicas: usize,
        down_after: Duration,
        options: &ServerOptions,
        sentinel: ServerOptions,
    ) -> Self {
        let replicated = Replicated::start(binary, replicas, options);
        let service = Self::SERVICE;
        let (master, down_after) = (replicated.servers()[0].port(), down_after.as_millis());
        let mut sentinel = sentinel
            .sentinel()
            .config(format!("sentinel monitor {service} 127.0.0.1 {master} 2"))
            .config(format!(
                "sentinel down-after-milliseconds {service} {down_after}"
            ))
            .config(format!("sentinel failover-timeout {service} 10000"));
        if let Some(password) = &options.password {
            sentinel = sentinel.config(format!("sentinel auth-pass {service} {password}"));
        }
        if options.shared {
            sentinel = sentinel.shared();
        }
        let group = Self {
            sentinels: Server::start_all(binary, vec![sentinel; 3]),
            replicated,
        };
        group.await_agreement(replicas);
        group
    }

    /// Returns `redis+sentinel://` with the addresses of all sentinels.
    pub fn url(&self) -> String {
        let sentinels = url_of("redis+sentinel", &self.sentinels);
        format!("{sentinels}/{}", Self::SERVICE)
    }

    /// Returns the sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// Returns the master and its replicas.
    pub const fn replicated(&self) -> &Replicated {
        &self.replicated
    }

    /// Returns the master according to the first sentinel that answers.
    #[track_caller]
    pub fn master(&self) -> &Server {
        let port = self.sentinels.iter().find_map(told_master);
        let port = port.expect("a sentinel that answers");
        let servers = self.replicated.servers();
        let master = servers.iter().find(|server| server.port() == port);
        master.expect("the master is one of ours")
    }

    /// Orders a failover and returns when all sentinels report the new master.
    #[track_caller]
    pub fn fail_over(&self) {
        let before = self.master().port();
        // A sentinel refuses while no replica is fit to be chosen.
        eventually_blocking("a sentinel to start a failover", GENEROUS, || {
            let reply = self.sentinels[0].command(&["SENTINEL", "FAILOVER", Self::SERVICE]);
            reply.error().is_none().then_some(())
        });
        self.await_other_than(before);
    }

    /// Waits until all running sentinels report another master than the one at `port`.
    #[track_caller]
    pub fn await_other_than(&self, port: u16) {
        // Sentinels that agree on nobody in time wait before they vote again.
        eventually_blocking("another master", GENEROUS * 3, || {
            let told: Vec<_> = self.sentinels.iter().filter_map(told_master).collect();
            (!told.is_empty() && told.iter().all(|&master| master != port)).then_some(())
        });
    }

    fn await_agreement(&self, replicas: usize) {
        for sentinel in &self.sentinels {
            eventually_blocking("the sentinels to know each other", GENEROUS, || {
                let state = sentinel.command(&["SENTINEL", "MASTER", Self::SERVICE]);
                let words: Vec<_> = state.array().into_iter().map(super::Reply::text).collect();
                let field = |name: &str| {
                    let at = words.iter().position(|word| word == name)?;
                    words[at + 1].parse::<usize>().ok()
                };
                let others = field("num-other-sentinels") == Some(2);
                (others && field("num-slaves") == Some(replicas)).then_some(())
            });
        }
    }
}

fn told_master(sentinel: &Server) -> Option<u16> {
    let (what, service) = ("GET-MASTER-ADDR-BY-NAME", SentinelGroup::SERVICE);
    let address = sentinel.try_command(&["SENTINEL", what, service]);
    let address = address.ok()?.array();
    address[1].clone().text().parse().ok()
}
