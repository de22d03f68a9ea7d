//! Clusters with a partition between two parts of their nodes, while clients reach both parts.

use super::{Cluster, id, is_master};
use crate::server::{ClientType, Server, ServerOptions};

impl Cluster {
    /// Partitions `few` nodes from all others. There is no bus between the parts, and replicas of
    /// one part get no data from masters of the other. Clients reach all nodes.
    ///
    /// # Panics
    ///
    /// Panics without [`ClusterOptions::splittable`](super::ClusterOptions::splittable), and if a
    /// master with replicas in the other part has replicas in its own part, too.
    #[track_caller]
    pub fn split(&self, few: &[&Server]) {
        let bus = self.bus.as_ref().expect("it is splittable");
        let is_few = |node: &Server| few.iter().any(|other| other.port() == node.port());
        for master in self.nodes.iter().filter(|node| is_master(node)) {
            let replicas = self.replicas_of(master);
            let across = |replica: &&Server| is_few(replica) != is_few(master);
            if replicas.iter().any(across) {
                assert!(replicas.iter().all(across), "all in the other part");
                let shut_out = ["ACL", "SETUSER", REPLICA, "off"];
                master.command(&shut_out).unwrap();
                master.client_kill(ClientType::Replica);
            }
        }
        bus.split(few.iter().map(|node| id(node)));
    }

    /// Ends the partition.
    #[track_caller]
    pub fn heal(&self) {
        for node in &self.nodes {
            node.command(&["ACL", "SETUSER", REPLICA, "on"]).unwrap();
        }
        self.bus.as_ref().expect("it is splittable").heal();
    }

    /// Returns the port at which other nodes connect to the bus of `node`, if it is not the usual
    /// one.
    pub(super) fn bus_port(&self, node: &Server) -> Option<u16> {
        let mut nodes = self.nodes.iter();
        let at = nodes.position(|other| other.port() == node.port());
        let bus = self.bus.as_ref()?;
        Some(bus.port(at.expect("a node of this cluster")))
    }
}

/// Makes replicas log in with their own user, so that they can be shut out.
pub(super) fn replicating_by_name(node: ServerOptions) -> ServerOptions {
    node.user(format!("{REPLICA} on >{REPLICA} ~* &* +@all"))
        .config(format!("masteruser {REPLICA}"))
        .config(format!("masterauth {REPLICA}"))
}

const REPLICA: &str = "harness-replica";
