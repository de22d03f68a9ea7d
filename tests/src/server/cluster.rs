//! Clusters of real servers.

mod moves;
mod split;

use std::{collections::BTreeMap, thread, time::Duration};

use redlatch_core::family::{SLOTS, slot_of};

use super::{Reply, Server, ServerBinary, ServerOptions, bus::Bus, url_of};
use crate::wait::{GENEROUS, eventually_blocking};

/// A cluster that belongs to a test: masters with an equal share of the slots each, and their
/// replicas.
///
/// The roles of the nodes are asked each time, because failovers change them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    bus: Option<Bus>,
}

/// The options of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The number of masters.
    pub masters: usize,
    /// The number of replicas per master.
    pub replicas: usize,
    /// The time after which a node that does not answer counts as dead.
    pub node_timeout: Duration,
    /// Whether the nodes can be partitioned by [`Cluster::split`].
    pub splittable: bool,
    /// The options of each node.
    pub node: ServerOptions,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            masters: 3,
            replicas: 0,
            node_timeout: Duration::from_secs(5),
            splittable: false,
            node: ServerOptions::new(),
        }
    }
}

impl Cluster {
    /// Starts a cluster. Returns when all nodes agree and all replicas are in step.
    ///
    /// # Panics
    ///
    /// Panics if the cluster does not come up.
    #[track_caller]
    pub fn start(binary: &ServerBinary, options: &ClusterOptions) -> Self {
        let node_timeout = options.node_timeout.as_millis();
        let node = options.node.clone().cluster();
        let node = node
            .config(format!("cluster-node-timeout {node_timeout}"))
            .config("cluster-announce-ip 127.0.0.1")
            .config("cluster-require-full-coverage no")
            .config("cluster-replica-validity-factor 0")
            .config("repl-diskless-sync-delay 0");
        let count = options.masters * (1 + options.replicas);
        let take = || Bus::take(count).expect("free ports");
        let bus = options.splittable.then(take);
        let with_bus = |at: usize| match &bus {
            None => node.clone(),
            Some(bus) => split::replicating_by_name(node.clone())
                .config(format!("cluster-announce-bus-port {}", bus.port(at))),
        };
        let nodes = Server::start_all(binary, (0..count).map(with_bus));
        for (at, node) in nodes.iter().enumerate() {
            if let Some(bus) = &bus {
                let served = bus.serve(at, node.port(), &id(node));
                served.expect("the port is ours");
            }
        }
        let cluster = Self { nodes, bus };
        cluster.form(options.masters, options.replicas);
        cluster
    }

    /// Returns `redis+cluster://` with the addresses of all nodes.
    pub fn url(&self) -> String {
        url_of("redis+cluster", &self.nodes)
    }

    /// Returns all nodes: first the nodes that were masters at the start.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Returns the nodes that are masters with slots now, as the first node that answers sees it.
    #[track_caller]
    pub fn masters(&self) -> Vec<&Server> {
        let mut ports: Vec<_> = self.slots().into_iter().map(|range| range.2).collect();
        ports.sort_unstable();
        ports.dedup();
        ports.into_iter().map(|port| self.at(port)).collect()
    }

    /// Returns the current master of `key`, as the first node that answers sees it.
    #[track_caller]
    pub fn owner(&self, key: &str) -> &Server {
        self.owner_of(slot_of(key.as_bytes()))
    }

    #[track_caller]
    fn owner_of(&self, slot: u16) -> &Server {
        let ranges = self.slots();
        let mut ranges = ranges.iter();
        let range = ranges.find(|(first, last, ..)| (*first..=*last).contains(&slot));
        self.at(range.expect("every slot has an owner").2)
    }

    /// Returns the replicas of `master`, as it sees them.
    #[track_caller]
    pub fn replicas_of(&self, master: &Server) -> Vec<&Server> {
        let id = id(master);
        let lines = nodes_of(master).into_iter();
        let replicas = lines.filter(|line| line.get(3) == Some(&id));
        let nodes = replicas.filter_map(|line| self.try_at(port(&line[1])));
        nodes.collect()
    }

    /// Sends a command to the master of its first key, `args[1]`.
    #[track_caller]
    pub fn command(&self, args: &[&str]) -> Reply {
        self.owner(args[1]).command(args)
    }

    /// Makes `replica` the master, with the old master's consent. Returns when it is the master.
    #[track_caller]
    pub fn fail_over_to(&self, replica: &Server) {
        replica.command(&["CLUSTER", "FAILOVER"]).unwrap();
        let promoted = || is_master(replica).then_some(());
        eventually_blocking("the replica to be master", GENEROUS, promoted);
    }

    /// Waits until one of `replicas` has become a master, and returns it.
    #[track_caller]
    pub fn await_successor(&self, replicas: &[&Server]) -> &Server {
        let port = eventually_blocking("a replica to take over", GENEROUS, || {
            let master = replicas.iter().find(|replica| is_master(replica))?;
            Some(master.port())
        });
        self.at(port)
    }

    fn form(&self, masters: usize, replicas: usize) {
        let (first, rest) = self.nodes.split_first().expect("there are nodes");
        for (at, node) in self.nodes.iter().enumerate() {
            let epoch = (at + 1).to_string();
            let set = node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            set.unwrap();
        }
        for (at, node) in self.nodes[..masters].iter().enumerate() {
            let share = |at: usize| usize::from(SLOTS) * at / masters;
            let slots = (share(at)..share(at + 1)).map(|slot| slot.to_string());
            let mut command = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            command.extend(slots);
            node.command(&command).unwrap();
        }
        let meet = |node: &Server| {
            // With `tls-cluster yes` nodes know each other by their TLS ports.
            let tls = node.tls().map(|(address, _)| address.port());
            let port = tls.unwrap_or_else(|| node.port()).to_string();
            let mut meet = vec!["CLUSTER", "MEET", "127.0.0.1", &port];
            let bus = self.bus_port(node).map(|port| port.to_string());
            meet.extend(bus.as_deref());
            first.command(&meet).unwrap();
        };
        rest.iter().for_each(meet);
        for node in &self.nodes {
            eventually_blocking("all nodes to know each other", GENEROUS, || {
                let lines = nodes_of(node);
                let known = lines.iter().filter(|line| !line[2].contains("handshake"));
                if known.count() == self.nodes.len() {
                    return Some(());
                }
                // Nodes forget a handshake that takes longer than their time-out.
                let met = nodes_of(first).len();
                if met < self.nodes.len() {
                    rest.iter().for_each(meet);
                }
                None
            });
        }
        for (at, replica) in self.nodes[masters..].iter().enumerate() {
            let master = id(&self.nodes[at % masters]);
            replica.command(&["CLUSTER", "REPLICATE", &master]).unwrap();
        }
        for node in &self.nodes {
            eventually_blocking("all replicas to be known", GENEROUS, || {
                let view = view(node)?;
                let known = view.values().all(|(_, known)| *known == replicas);
                known.then_some(())
            });
        }
        self.await_agreement();
    }

    /// Waits until all nodes report a healthy cluster and know the same owners and replicas, and
    /// until the replicas are in step.
    #[track_caller]
    pub fn await_agreement(&self) {
        let mut seen = Views::default();
        eventually_blocking("the cluster to agree", GENEROUS, || {
            seen.0 = self.nodes.iter().map(view).collect();
            let views = &seen.0;
            let well = views.iter().all(|view| view.is_some() && *view == views[0]);
            let in_step = self.nodes.iter().all(Server::is_in_step);
            (well && in_step).then_some(())
        });
    }

    /// Returns the ranges of slots, as the first node that answers sees them.
    fn slots(&self) -> Vec<Range> {
        let ranges = self.nodes.iter().find_map(slots_of);
        ranges.expect("a node that answers")
    }

    fn at(&self, port: u16) -> &Server {
        self.try_at(port).expect("a node of this cluster")
    }

    fn try_at(&self, port: u16) -> Option<&Server> {
        self.nodes.iter().find(|node| node.port() == port)
    }
}

fn is_master(node: &Server) -> bool {
    node.info("replication")["role"] == "master"
}

fn id(node: &Server) -> String {
    node.command(&["CLUSTER", "MYID"]).unwrap().text()
}

/// Reads `CLUSTER NODES`: the words of each line, one line per node.
fn nodes_of(node: &Server) -> Vec<Vec<String>> {
    let text = node.command(&["CLUSTER", "NODES"]).unwrap().text();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    text.lines().map(words).collect()
}

/// Reads `host:port@bus`.
fn port(address: &str) -> u16 {
    let address = address.split('@').next().expect("an address");
    let (_, port) = address.rsplit_once(':').expect("a port");
    port.parse().expect("a number")
}

/// The last view of each node. It is printed when a wait for agreement panics.
#[derive(Debug, Default)]
struct Views(Vec<Option<View>>);

impl Drop for Views {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("owner and replicas of each range, by node: {:?}", self.0);
        }
    }
}

type View = BTreeMap<u16, (u16, usize)>;

/// The first slot, the last slot, the master's port and the number of replicas.
type Range = (u16, u16, u16, usize);

/// Returns the view of a healthy node: owner and number of replicas of each range.
fn view(node: &Server) -> Option<View> {
    let info = node.command(&["CLUSTER", "INFO"]).unwrap().text();
    let ranges = slots_of(node)?.into_iter();
    let view = ranges.map(|(first, _, owner, replicas)| (first, (owner, replicas)));
    info.contains("cluster_state:ok").then(|| view.collect())
}

fn slots_of(node: &Server) -> Option<Vec<Range>> {
    let Ok(Reply::Array(ranges)) = node.try_command(&["CLUSTER", "SLOTS"]) else {
        return None;
    };
    let number = |reply: &Reply| u16::try_from(reply.clone().int()).expect("a slot or port");
    let ranges = ranges.into_iter().map(|range| {
        let range = range.array();
        let owner = range[2].clone().array();
        let [first, last, port] = [&range[0], &range[1], &owner[1]].map(number);
        (first, last, port, range.len() - 3)
    });
    Some(ranges.collect())
}
