//! Clusters whose nodes fall into two parts that know nothing of each other, while clients reach
//! both.

use super::{Cluster, id, is_master};
use crate::server::{ClientType, Server, ServerOptions};

impl Cluster {
    /// Keeps `few` nodes and all others from hearing each other: neither is there a bus between
    /// them, nor do replicas of the one part get anything from masters of the other. Clients reach
    /// all of them.
    ///
    /// # Panics
    ///
    /// Without [`ClusterOptions::splittable`](super::ClusterOptions::splittable), and where a master with replicas in the other part
    /// has some in its own.
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

    /// Lets all nodes hear each other again.
    #[track_caller]
    pub fn heal(&self) {
        for node in &self.nodes {
            node.command(&["ACL", "SETUSER", REPLICA, "on"]).unwrap();
        }
        self.bus.as_ref().expect("it is splittable").heal();
    }

    /// Returns the port at which others are to talk to `node`, where that is not the usual one.
    pub(super) fn bus_port(&self, node: &Server) -> Option<u16> {
        let mut nodes = self.nodes.iter();
        let at = nodes.position(|other| other.port() == node.port());
        let bus = self.bus.as_ref()?;
        Some(bus.port(at.expect("a node of this cluster")))
    }
}

/// Lets replicas log in by a name of their own, so that they can be shut out.
pub(super) fn replicating_by_name(node: ServerOptions) -> ServerOptions {
    node.user(format!("{REPLICA} on >{REPLICA} ~* &* +@all"))
        .config(format!("masteruser {REPLICA}"))
        .config(format!("masterauth {REPLICA}"))
}

const REPLICA: &str = "harness-replica";
