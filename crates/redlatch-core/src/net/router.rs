//! Which node serves which slot, and the links to the nodes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Link, Session, World};
use crate::seam::{Address, Dial, Login, Purpose};

/// What a link is used for. Links of different classes to one node do not hold each other up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LinkClass {
    /// Scripts and queries.
    Command,
    /// Scripts that are followed by `WAIT`, which blocks its connection.
    Durable,
}

/// Routes slots to nodes. Links are made when first used.
#[derive(Debug)]
pub(crate) struct Router {
    world: World,
    login: Login,
    connect_timeout: Duration,
    map: Mutex<SlotMap>,
}

/// The node of every slot: the one named at the start, until a topology says otherwise.
#[derive(Debug)]
struct SlotMap {
    /// First slot of each range → node. Covers all slots, since 0 is always there.
    ranges: BTreeMap<u16, Address>,
    links: BTreeMap<(Address, LinkClass), Arc<Link>>,
}

impl Router {
    /// Routes every slot to `address`.
    pub(crate) fn standalone(
        world: World,
        address: Address,
        login: Login,
        connect_timeout: Duration,
    ) -> Self {
        let map = SlotMap {
            ranges: BTreeMap::from([(0, address)]),
            links: BTreeMap::new(),
        };
        Self {
            world,
            login,
            connect_timeout,
            map: Mutex::new(map),
        }
    }

    /// Returns the link to the node that serves `slot`.
    pub(crate) fn link(&self, slot: u16, class: LinkClass) -> Arc<Link> {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        let node = map.node(slot).clone();
        let link = map
            .links
            .entry((node, class))
            .or_insert_with_key(|(node, _)| {
                let dial = Dial {
                    address: node.clone(),
                    login: self.login.clone(),
                    purpose: Purpose::Command,
                };
                Link::start(self.world.clone(), dial, self.connect_timeout)
            });
        Arc::clone(link)
    }

    /// Returns the node that serves `slot`; calls for one node may share a pipeline.
    pub(crate) fn node(&self, slot: u16) -> Address {
        self.map
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .node(slot)
            .clone()
    }

    /// Returns one slot of every node.
    pub(crate) fn one_slot_per_node(&self) -> Vec<u16> {
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = BTreeMap::new();
        for (&slot, node) in &map.ranges {
            seen.entry(node).or_insert(slot);
        }
        seen.into_values().collect()
    }

    /// Returns the verb that reaches the subscribers of a wake channel.
    pub(crate) const fn publish_verb(&self) -> &'static str {
        "PUBLISH"
    }

    /// The node behind `session` refused a request as not its own or not now: look whether it is still in charge.
    pub(crate) fn doubted(&self, session: &Session) {
        tracing::debug!(target: "redlatch", address = %session.address(), "the server cannot serve a request for the moment");
        session.suspect(Duration::from_secs(1));
    }
}

impl SlotMap {
    fn node(&self, slot: u16) -> &Address {
        match self.ranges.range(..=slot).next_back() {
            Some((_, node)) => node,
            None => unreachable!("the range that starts at 0 covers every slot"),
        }
    }
}
