//! The servers of a run, in any topology.

use std::{
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
    /// Servers of the user, at this address.
    Own(String),
}

impl Place {
    /// Starts servers whose data survive a kill, unless the user has some.
    pub(crate) fn start(topology: Topology, url: Option<String>) -> Self {
        if let Some(url) = url {
            return Self::Own(url);
        }
        let binary = &ServerBinary::any();
        let node = ServerOptions::new().append_only().keep_config();
        let node = node.config("appendfsync always");
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

    /// Returns the number of replicas per master.
    pub(crate) const fn replicas(&self) -> u32 {
        match self {
            Self::Standalone(_) | Self::Own(_) => 0,
            Self::Replicated(_) | Self::Sentinel(_) => 2,
            Self::Cluster(_) => 1,
        }
    }

    /// Returns the servers with data.
    pub(crate) fn servers(&self) -> &[Server] {
        match self {
            Self::Standalone(servers) => servers,
            Self::Replicated(replicated) => replicated.servers(),
            Self::Sentinel(group) => group.replicated().servers(),
            Self::Cluster(cluster) => cluster.nodes(),
            Self::Own(_) => &[],
        }
    }

    /// Returns the servers that accept writes now. All servers must answer.
    pub(crate) fn masters(&self) -> Vec<&Server> {
        match self {
            Self::Standalone(servers) => servers.iter().collect(),
            Self::Replicated(replicated) => vec![replicated.master()],
            Self::Sentinel(group) => vec![group.master()],
            Self::Cluster(cluster) => cluster.masters(),
            Self::Own(_) => Vec::new(),
        }
    }

    /// Returns an active server for a fault. Of single servers it is mostly the first, which has
    /// all names. The names on the other two are on all three servers, of which two suffice.
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

    /// Returns the port of the active server of `name`. All servers must answer.
    pub(crate) fn owner(&self, name: &str) -> u16 {
        match self {
            Self::Standalone(servers) => servers[0].port(),
            Self::Cluster(cluster) => cluster.owner(&key(name)).port(),
            Self::Replicated(_) | Self::Sentinel(_) => self.masters()[0].port(),
            Self::Own(_) => 0,
        }
    }

    /// Tells whether a fault of the server at `port` affects `name`, whose owner is at `owner`.
    pub(crate) fn works_on(&self, name: &str, port: u16, owner: u16) -> bool {
        // A red-lock is on all three servers.
        let on_all = matches!(self, Self::Standalone(_)) && name.starts_with("red-");
        on_all || owner == port
    }

    /// Returns the replicas of `master`.
    pub(crate) fn replicas_of(&self, master: &Server) -> Vec<&Server> {
        match self {
            Self::Standalone(_) | Self::Own(_) => Vec::new(),
            Self::Replicated(_) | Self::Sentinel(_) => {
                let mut others: Vec<_> = self.servers().iter().collect();
                others.retain(|other| other.port() != master.port());
                others
            }
            Self::Cluster(cluster) => cluster.replicas_of(master),
        }
    }

    /// Returns the URL of all servers.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Standalone(servers) => servers[0].url(),
            Self::Replicated(replicated) => replicated.url(),
            Self::Sentinel(group) => group.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Own(url) => url.clone(),
        }
    }

    /// Returns a client builder that connects to all servers through `proxies`, one for each of
    /// [`servers`](Self::servers). The user's servers are behind none.
    pub(crate) fn through(&self, proxies: &[Proxy]) -> ClientBuilder {
        let fronts = proxies.iter().map(|proxy| proxy.address().to_string());
        let fronts: Vec<_> = fronts.collect();
        let mut builder = match self {
            Self::Standalone(_) => return Client::builder(&proxies[0].url()),
            Self::Own(url) => return Client::builder(url),
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

    /// Makes a replica the master by order. In a cluster and with plain replicas the old master
    /// consents. Sentinels do not ask it.
    pub(crate) fn fail_over(&self, master: &Server) {
        match self {
            Self::Standalone(_) | Self::Own(_) => {}
            Self::Replicated(replicated) => {
                // This is the procedure of a careful administrator: no more writes, all replicas in
                // step, then the change.
                let pause = ["CLIENT", "PAUSE", "3000", "WRITE"];
                master.command(&pause).unwrap();
                let replicas = self.replicas_of(master);
                for replica in &replicas {
                    replica.catch_up_with(master);
                }
                replicated.promote(self.at(replicas[0]));
                master.command(&["CLIENT", "UNPAUSE"]).unwrap();
            }
            Self::Sentinel(group) => {
                order_another(group, master.port());
                group.await_other_than(master.port());
            }
            Self::Cluster(cluster) => cluster.fail_over_to(self.replicas_of(master)[0]),
        }
    }

    /// Tells whether [`fail_over`](Self::fail_over) may lose data that the old master has
    /// acknowledged.
    pub(crate) const fn orders_forget(&self) -> bool {
        matches!(self, Self::Sentinel(_))
    }

    /// Waits until another server has taken over from `master`, which is dead. In a topology
    /// without automatic failover, it makes one of `replicas` the master.
    pub(crate) fn take_over(&self, master: &Server, replicas: &[&Server]) {
        match self {
            Self::Standalone(_) | Self::Own(_) => {}
            Self::Replicated(replicated) => replicated.promote(self.at(replicas[0])),
            Self::Sentinel(group) => group.await_other_than(master.port()),
            Self::Cluster(cluster) => drop(cluster.await_successor(replicas)),
        }
    }

    /// Makes `server`, which has just restarted, a replica, if it would not soon become one by
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

    /// Waits until all servers agree on the masters and all replicas are in step.
    pub(crate) fn await_peace(&self) {
        match self {
            Self::Standalone(_) | Self::Own(_) => {}
            Self::Replicated(replicated) => replicated.await_in_step(),
            Self::Cluster(cluster) => cluster.await_agreement(),
            Self::Sentinel(group) => {
                let calm = || {
                    let master = group.master();
                    let wanted = Some((master.port().to_string(), "master".to_owned()));
                    let mut sentinels = group.sentinels().iter();
                    let told = sentinels.all(|sentinel| told(sentinel) == wanted);
                    let servers = group.replicated().servers().iter();
                    let roles = servers.filter(|server| is_master(server)).count();
                    told && roles == 1 && is_master(master)
                };
                // A pending action of a sentinel is visible after its next check.
                eventually_blocking("sentinels to be at peace", PATIENCE, || {
                    calm().then(|| thread::sleep(Duration::from_millis(700)))?;
                    calm().then_some(())
                });
                group.replicated().await_in_step();
            }
        }
    }

    /// Inspects all keys of all masters.
    pub(crate) fn left(&self) -> Left {
        let mut left = Left::default();
        for server in self.masters() {
            for key in server.keys() {
                let ttl = server.command(&["PTTL", &key]).int();
                let (holders, ends) = if server.command(&["TYPE", &key]).text() == "hash" {
                    let field = |name| server.command(&["HGET", &key, name]);
                    (field("h"), field("u"))
                } else {
                    (Reply::Nil, Reply::Nil)
                };
                left.judge(&key, ttl, &holders, lasts(server, &ends));
            }
        }
        left
    }

    /// Makes servers restart in their current roles.
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

/// The data on the servers at the end.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Keys without an expiry, and keys with a holder.
    pub(crate) leaks: Vec<String>,
    /// The number of other keys: counters of tokens, marks of undone attempts.
    pub(crate) counters: usize,
}

impl Left {
    /// Records a key, by its time to live in ms, the value of its field of holders, and whether
    /// their lease lasts. A holder that was killed stays in the field after its lease.
    fn judge(&mut self, key: &str, ttl: i64, holders: &Reply, lasts: bool) {
        let held = lasts && matches!(holders, Reply::Bulk(attempts) if attempts != b" ");
        if ttl == -1 {
            self.leaks.push(format!("{key} has no end"));
        } else if held {
            let leak = format!("{key} is held for {ttl} ms: {holders:?}");
            self.leaks.push(leak);
        } else if ttl >= 0 {
            self.counters += 1;
        }
    }
}

/// Tells whether `ends`, in ms of the server, is to come.
fn lasts(server: &Server, ends: &Reply) -> bool {
    let Reply::Bulk(ends) = ends else {
        return false;
    };
    let ends: Result<u64, _> = String::from_utf8_lossy(ends).parse();
    let now = server.millis();
    ends.is_ok_and(|ends| ends > now)
}

/// Returns the key of a name. The other keys of the name have the same hash tag.
pub(crate) fn key(name: &str) -> String {
    format!("redlatch:{{{name}}}")
}

/// Tells whether a server reports itself as a master.
fn is_master(server: &Server) -> bool {
    server.info("replication")["role"] == "master"
}

/// Orders a sentinel to replace the master at `port`, and repeats the order if the sentinel gives
/// up. A replica that is not ready in time is no reason for the sentinel to choose another one.
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
            // The order is refused while no replica is fit to be chosen.
            let order = ["SENTINEL", "FAILOVER", SentinelGroup::SERVICE];
            let accepted = sentinel.command(&order).error().is_none();
            ordered = accepted.then(Instant::now);
        }
        None
    });
}

/// Returns the master's port and flags according to a sentinel.
fn told(sentinel: &Server) -> Option<(String, String)> {
    let state = sentinel.command(&["SENTINEL", "MASTER", SentinelGroup::SERVICE]);
    let words: Vec<_> = state.array().into_iter().map(Reply::text).collect();
    let field = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    Some((field("port")?, field("flags")?))
}

/// Sentinels that could not agree retry after twice their failover time-out, which is 10 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time after which a silent server counts as dead. It is longer than the silence of a loaded
/// machine.
pub(crate) const DOWN_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftover_keys_are_judged() {
        let mut left = Left::default();
        let attempts = |text: &str| Reply::Bulk(text.as_bytes().to_vec());
        left.judge("counter", 500, &Reply::Nil, false);
        left.judge("freed", 500, &attempts(" "), false);
        left.judge("its lease has ended", 500, &attempts(" a1 "), false);
        left.judge("gone meanwhile", -2, &Reply::Nil, false);
        assert_eq!((left.leaks.len(), left.counters), (0, 3));
        left.judge("endless", -1, &Reply::Nil, false);
        left.judge("held", 500, &attempts(" a1 "), true);
        assert_eq!((left.leaks.len(), left.counters), (2, 3));
    }
}
