//! Slots that move from node to node, as a whole or key by key.

use super::{Cluster, id};
use crate::server::{Connection, Reply, Server};

impl Cluster {
    /// Moves `slot` with all its keys from its current master to `target`, `batch` keys at a time,
    /// as administrators do.
    #[track_caller]
    pub fn migrate(&self, slot: u16, target: &Server, batch: usize) {
        let source = self.begin_to_move(slot, target);
        let (slot, batch) = (slot.to_string(), batch.to_string());
        let mut connection = source.connect().expect("the node is there");
        loop {
            let keys = connection.command(&["CLUSTER", "GETKEYSINSLOT", &slot, &batch]);
            let keys = keys.expect("the node answers").unwrap().array();
            if keys.is_empty() {
                break;
            }
            let keys: Vec<_> = keys.into_iter().map(Reply::text).collect();
            move_keys(&mut connection, target, &keys);
        }
        self.end_to_move(&slot, source, target);
    }

    /// Starts to move `slot` from its current master to `target`, and returns that master. No key
    /// moves yet.
    #[track_caller]
    pub fn begin_to_move(&self, slot: u16, target: &Server) -> &Server {
        let source = self.owner_of(slot);
        let slot = slot.to_string();
        set_slot(target, &slot, "IMPORTING", source);
        set_slot(source, &slot, "MIGRATING", target);
        source
    }

    /// Moves one key of a slot that is being moved.
    #[track_caller]
    pub fn move_key(&self, key: &str, source: &Server, target: &Server) {
        let mut connection = source.connect().expect("the node is there");
        move_keys(&mut connection, target, &[key.to_owned()]);
    }

    fn end_to_move(&self, slot: &str, source: &Server, target: &Server) {
        set_slot(target, slot, "NODE", target);
        set_slot(source, slot, "NODE", target);
        for node in self.masters() {
            if node.port() != target.port() && node.port() != source.port() {
                set_slot(node, slot, "NODE", target);
            }
        }
    }
}

fn set_slot(node: &Server, slot: &str, what: &str, whom: &Server) {
    node.command(&["CLUSTER", "SETSLOT", slot, what, &id(whom)])
        .unwrap();
}

fn move_keys(source: &mut Connection, target: &Server, keys: &[String]) {
    let port = target.port().to_string();
    let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "30000", "KEYS"];
    migrate.extend(keys.iter().map(String::as_str));
    source.command(&migrate).expect("the node answers").unwrap();
}
