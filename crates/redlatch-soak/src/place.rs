//! The servers of a run, whatever their topology.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use redlatch::{Client, ClientBuilder};
use redlatch_tests::{
    proxy::Proxy,
    server::{
        Cluster, ClusterOptions, Replicated, Reply, SentinelGroup, Server, ServerBinary,
        ServerOptions,
    },
    wait::{GENEROUS, eventually_blocking},
};

use crate::options::Topology;

/// Running servers.
#[derive(Debug)]
pub(crate) enum Place {
    Standalone(Vec<Server>),
    Replicated(Replicated),
    Sentinel(SentinelGroup),
    Cluster(Cluster),
}

impl Place {
    /// Starts servers whose data outlives a kill.
    pub(crate) fn start(topology: Topology, binary: &ServerBinary) -> Self {
        let node = ServerOptions::new()
            .append_only()
            .keep_config()
            .config("appendfsync always");
        match topology {
            Topology::Standalone => {
                let servers = (0..3).map(|_| Server::start(binary, node.clone()));
                Self::Standalone(servers.collect())
            }
            Topology::Replicated => Self::Replicated(Replicated::start(binary, 2, &node)),
            Topology::Sentinel => {
                Self::Sentinel(SentinelGroup::start(binary, 2, DOWN_AFTER, &node))
            }
            Topology::Cluster => Self::Cluster(Cluster::start(
                binary,
                &ClusterOptions {
                    masters: 3,
                    replicas: 1,
                    node_timeout: DOWN_AFTER,
                    splittable: false,
                    node,
                },
            )),
        }
    }

    /// Returns how many replicas a master has.
    pub(crate) const fn replicas(&self) -> u32 {
        match self {
            Self::Standalone(_) => 0,
            Self::Replicated(_) | Self::Sentinel(_) => 2,
            Self::Cluster(_) => 1,
        }
    }

    /// Returns the servers that have data.
    pub(crate) fn servers(&self) -> &[Server] {
        match self {
            Self::Standalone(servers) => servers,
            Self::Replicated(replicated) => replicated.servers(),
            Self::Sentinel(group) => group.replicated().servers(),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// Returns the servers that take writes now. All must answer.
    pub(crate) fn masters(&self) -> Vec<&Server> {
        match self {
            Self::Standalone(servers) => servers.iter().collect(),
            Self::Replicated(replicated) => vec![replicated.master()],
            Self::Sentinel(group) => vec![group.master()],
            Self::Cluster(cluster) => cluster.masters(),
        }
    }

    /// Returns a server in charge for something to be done to. Of single ones mostly the first,
    /// which has all names; what is on the others is on three, of which two are enough.
    pub(crate) fn victim(&self, random: &mut Rng) -> &Server {
        let masters = self.masters();
        let first = matches!(self, Self::Standalone(_)) && random.u8(..4) > 0;
        let at = if first {
            0
        } else {
            random.usize(..masters.len())
        };
        masters[at]
    }

    /// Returns the port of the server in charge of `name` now. All must answer.
    pub(crate) fn owner(&self, name: &str) -> u16 {
        match self {
            Self::Standalone(servers) => servers[0].port(),
            Self::Cluster(cluster) => cluster.owner(&key(name)).port(),
            Self::Replicated(_) | Self::Sentinel(_) => self.masters()[0].port(),
        }
    }

    /// Says whether what is done to the server at `port` is done to `name`, whose owner is at
    /// `owner`.
    pub(crate) fn works_on(&self, name: &str, port: u16, owner: u16) -> bool {
        // A red-lock is on all of them.
        let on_all = matches!(self, Self::Standalone(_)) && name.starts_with("red-");
        on_all || owner == port
    }

    /// Returns the replicas of `master`.
    pub(crate) fn replicas_of(&self, master: &Server) -> Vec<&Server> {
        match self {
            Self::Standalone(_) => Vec::new(),
            Self::Replicated(_) | Self::Sentinel(_) => {
                let others = self.servers().iter();
                others
                    .filter(|other| other.port() != master.port())
                    .collect()
            }
            Self::Cluster(cluster) => cluster.replicas_of(master),
        }
    }

    /// Returns what connects to all of them.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Standalone(servers) => servers[0].url(),
            Self::Replicated(replicated) => replicated.url(),
            Self::Sentinel(group) => group.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// Returns what connects to all of them through `proxies`, one for each of [`servers`](Self::servers).
    pub(crate) fn through(&self, proxies: &[Proxy]) -> ClientBuilder {
        let fronts: Vec<_> = proxies
            .iter()
            .map(|proxy| proxy.address().to_string())
            .collect();
        let mut builder = match self {
            Self::Standalone(_) => return Client::builder(&proxies[0].url()),
            Self::Replicated(_) => {
                return Client::builder(&format!("redis+replicas://{}", fronts.join(",")));
            }
            Self::Sentinel(group) => Client::builder(&group.url()),
            Self::Cluster(_) => Client::builder(&format!("redis+cluster://{}", fronts.join(","))),
        };
        for (server, front) in self.servers().iter().zip(&fronts) {
            builder = builder.announced_as(&server.address().to_string(), front);
        }
        builder
    }

    /// Returns the addresses of [`servers`](Self::servers).
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers().iter().map(Server::address).collect()
    }

    /// Makes a replica the master by order. Cluster and replicas: with the old one's consent.
    /// Sentinels do not ask it.
    pub(crate) fn fail_over(&self, master: &Server) {
        match self {
            Self::Standalone(_) => {}
            Self::Replicated(replicated) => {
                // What a careful administrator does: no writes any more, all replicas in step, then
                // the change.
                let pause = ["CLIENT", "PAUSE", "3000", "WRITE"];
                master.command(&pause).unwrap();
                in_step(master, 2);
                replicated.promote(self.at(self.replicas_of(master)[0]));
                master.command(&["CLIENT", "UNPAUSE"]).unwrap();
            }
            Self::Sentinel(group) => {
                order_another(group, master.port());
                await_other(group, master.port());
            }
            Self::Cluster(cluster) => cluster.fail_over_to(self.replicas_of(master)[0]),
        }
    }

    /// Says whether [`fail_over`](Self::fail_over) may forget what the old master has answered.
    pub(crate) const fn orders_forget(&self) -> bool {
        matches!(self, Self::Sentinel(_))
    }

    /// Waits until another server has taken over from `master`, which is dead; where nobody else
    /// does it, makes one of `replicas` the master.
    pub(crate) fn take_over(&self, master: &Server, replicas: &[&Server]) {
        match self {
            Self::Standalone(_) => {}
            Self::Replicated(replicated) => replicated.promote(self.at(replicas[0])),
            Self::Sentinel(group) => await_other(group, master.port()),
            Self::Cluster(cluster) => drop(cluster.await_successor(replicas)),
        }
    }

    /// Makes `server`, which has just come back, a replica, where it would not become one soon by
    /// itself.
    pub(crate) fn demote(&self, server: &Server) {
        if let Self::Replicated(_) | Self::Sentinel(_) = self {
            let others = self.replicas_of(server).into_iter();
            let mut masters = others.filter(|other| is_master(other));
            let master = masters.next().expect("another is the master by now");
            let port = master.port().to_string();
            server.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
        }
    }

    /// Waits until all servers agree who is in charge and all replicas are in step.
    pub(crate) fn await_peace(&self) {
        match self {
            Self::Standalone(_) => {}
            Self::Replicated(replicated) => replicated.await_in_step(),
            Self::Cluster(cluster) => cluster.await_agreement(),
            Self::Sentinel(group) => {
                let calm = || {
                    let master = group.master();
                    let told = group.sentinels().iter().all(|sentinel| {
                        told(sentinel).is_some_and(|(port, flags)| {
                            port == master.port().to_string() && flags == "master"
                        })
                    });
                    let servers = group.replicated().servers().iter();
                    let roles = servers.filter(|server| is_master(server)).count();
                    told && roles == 1 && is_master(master)
                };
                // What a sentinel is about to do shows after its next look.
                eventually_blocking("sentinels to be at peace", PATIENCE, || {
                    calm().then(|| thread::sleep(Duration::from_millis(700)))?;
                    calm().then_some(())
                });
                group.replicated().await_in_step();
            }
        }
    }

    /// Looks at all keys of all servers in charge.
    pub(crate) fn left(&self) -> Left {
        let mut left = Left::default();
        for server in self.masters() {
            for key in server.keys() {
                let ttl = server.command(&["PTTL", &key]).int();
                let holders = if server.command(&["TYPE", &key]).text() == "hash" {
                    server.command(&["HGET", &key, "h"])
                } else {
                    Reply::Nil
                };
                left.judge(&key, ttl, &holders);
            }
        }
        left
    }

    /// Lets servers come back in the roles that they have now.
    pub(crate) fn keep_roles(&self) {
        if let Self::Replicated(_) | Self::Sentinel(_) = self {
            for server in self.servers() {
                server.command(&["CONFIG", "REWRITE"]).unwrap();
            }
        }
    }

    fn at(&self, server: &Server) -> usize {
        let mut servers = self.servers().iter();
        let at = servers.position(|other| other.port() == server.port());
        at.expect("it is one of ours")
    }
}

/// What is on the servers when all is over.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Keys without an end, and those that somebody holds.
    pub(crate) leaks: Vec<String>,
    /// How many others there are: counters of tokens, marks of what was undone.
    pub(crate) counters: usize,
}

impl Left {
    /// Takes note of a key, by its time to live in ms and the value of its field of holders.
    fn judge(&mut self, key: &str, ttl: i64, holders: &Reply) {
        let held = matches!(holders, Reply::Bulk(attempts) if attempts != b" ");
        if ttl == -1 {
            self.leaks.push(format!("{key} has no end"));
        } else if held {
            self.leaks
                .push(format!("{key} is held for {ttl} ms: {holders:?}"));
        } else if ttl >= 0 {
            self.counters += 1;
        }
    }
}

/// Returns the key of a name; its other keys have the same hash tag.
pub(crate) fn key(name: &str) -> String {
    format!("redlatch:{{{name}}}")
}

/// Asks a server whether it takes itself for a master.
fn is_master(server: &Server) -> bool {
    server.info("replication")["role"] == "master"
}

fn in_step(master: &Server, replicas: usize) {
    eventually_blocking("replicas to be in step", GENEROUS, || {
        let state = master.info("replication");
        let offset = format!("offset={},", state["master_repl_offset"]);
        let all = (0..replicas).all(|at| {
            let replica = state.get(&format!("slave{at}"));
            replica.is_some_and(|replica| replica.contains(&offset))
        });
        all.then_some(())
    });
}

/// Waits until all sentinels tell of another master than the one at `port`.
fn await_other(group: &SentinelGroup, port: u16) {
    eventually_blocking("another master", PATIENCE, || {
        let mut sentinels = group.sentinels().iter();
        let others = |sentinel| told(sentinel).is_some_and(|(told, _)| told != port.to_string());
        sentinels.all(others).then_some(())
    });
}

/// Orders a sentinel to let another master take over from the one at `port`, again if it gives up:
/// a replica that does not get along in time is no reason for it to choose another one.
fn order_another(group: &SentinelGroup, port: u16) {
    let sentinel = &group.sentinels()[0];
    let mut ordered: Option<Instant> = None;
    eventually_blocking("a sentinel to choose another master", PATIENCE, || {
        let (told, flags) = told(sentinel)?;
        if told != port.to_string() {
            return Some(());
        }
        let is_due = ordered.is_none_or(|at| at.elapsed() > GENEROUS);
        if is_due && !flags.contains("failover_in_progress") {
            // It is refused while there is no good replica to choose.
            let order = ["SENTINEL", "FAILOVER", SentinelGroup::SERVICE];
            let accepted = sentinel.command(&order).error().is_none();
            ordered = accepted.then(Instant::now);
        }
        None
    });
}

/// Asks a sentinel for the master's port and flags.
fn told(sentinel: &Server) -> Option<(String, String)> {
    let state = sentinel.command(&["SENTINEL", "MASTER", SentinelGroup::SERVICE]);
    let words: Vec<_> = state.array().into_iter().map(Reply::text).collect();
    let field = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    Some((field("port")?, field("flags")?))
}

/// Sentinels that could not agree try again after twice their time-out for failovers, which is 10
/// s.
const PATIENCE: Duration = Duration::from_secs(120);

/// After how long a silent server is taken for dead: more than a loaded machine is silent.
pub(crate) const DOWN_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftover_keys_are_judged() {
        let mut left = Left::default();
        left.judge("counter", 500, &Reply::Nil);
        left.judge("freed", 500, &Reply::Bulk(b" ".to_vec()));
        left.judge("gone meanwhile", -2, &Reply::Nil);
        assert_eq!((left.leaks.len(), left.counters), (0, 2));
        left.judge("endless", -1, &Reply::Nil);
        left.judge("held", 500, &Reply::Bulk(b" a1 ".to_vec()));
        assert_eq!((left.leaks.len(), left.counters), (2, 2));
    }
}
