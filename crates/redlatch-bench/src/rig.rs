//! The servers of a run, and their counters.

use std::{collections::BTreeMap, time::Duration};

use redlatch_tests::server::{Cluster, ClusterOptions, Server, ServerBinary, ServerOptions};

use crate::{contender::Failure, relay::Relay};

/// The servers that a workload runs against.
#[derive(Debug)]
pub(crate) enum Rig {
    One(Box<Server>, Option<Relay>),
    Cluster(Cluster),
}

/// The counters of the servers at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) cpu: Duration,
    pub(crate) calls: BTreeMap<String, u64>,
}

/// The memory and the connections that a server uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) bytes: f64,
    pub(crate) connections: f64,
}

impl Rig {
    /// Starts one server. For a distant server, a relay runs between it and its clients.
    pub(crate) fn one(binary: &ServerBinary, latency: Duration) -> Result<Self, Failure> {
        let server = Box::new(Server::start(binary, ServerOptions::new()));
        let relay = match latency {
            Duration::ZERO => None,
            _ => Some(Relay::start(server.port(), latency)?),
        };
        Ok(Self::One(server, relay))
    }

    /// Starts one server for as many connections as the process may open.
    pub(crate) fn roomy(binary: &ServerBinary) -> Self {
        let options = ServerOptions::new().config("maxclients 19000");
        Self::One(Box::new(Server::start(binary, options)), None)
    }

    /// Starts a cluster of three masters.
    pub(crate) fn cluster(binary: &ServerBinary) -> Self {
        Self::Cluster(Cluster::start(binary, &ClusterOptions::default()))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::One(..) => format!("redis://127.0.0.1:{}", self.port()),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// Returns the port for clients of the only server, or of the cluster's first node.
    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::One(_, Some(relay)) => relay.port(),
            _ => self.servers()[0].port(),
        }
    }

    /// Reads the counters of all servers.
    pub(crate) fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        for server in self.servers() {
            let cpu = server.info("cpu");
            for part in ["used_cpu_sys", "used_cpu_user"] {
                let seconds = cpu[part].parse().unwrap_or(0.0);
                counted.cpu += Duration::from_secs_f64(seconds);
            }
            for (verb, calls) in server.commandstats() {
                *counted.calls.entry(verb).or_default() += calls;
            }
        }
        counted
    }

    /// Returns what the servers keep.
    pub(crate) fn size(&self) -> Size {
        let mut size = Size::default();
        for server in self.servers() {
            size.bytes += server.used_memory() as f64;
            let connected = &server.info("clients")["connected_clients"];
            size.connections += connected.parse().unwrap_or(f64::NAN);
        }
        size
    }

    /// Loads a script into the only server, and returns its digest.
    pub(crate) fn load(&self, script: &str) -> String {
        let loaded = self.servers()[0].command(&["SCRIPT", "LOAD", script]);
        loaded.unwrap().text()
    }

    fn servers(&self) -> Vec<&Server> {
        match self {
            Self::One(server, _) => vec![server],
            Self::Cluster(cluster) => cluster.nodes().iter().collect(),
        }
    }
}

impl Counted {
    /// Returns the calls of `verbs`, which commas separate, since `before`.
    pub(crate) fn calls_since(&self, before: &Self, verbs: &str) -> u64 {
        let of = |counted: &Self, verb: &str| counted.calls.get(verb).copied().unwrap_or(0);
        let calls = |verb: &str| of(self, verb).saturating_sub(of(before, verb));
        verbs.split(',').map(calls).sum()
    }
}
