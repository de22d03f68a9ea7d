//! The node of each slot, and the reader of the reply that names them. This module never awaits.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{Link, LinkClass, servers::is_possible};
use crate::{
    Error,
    protocol::slot::SLOTS,
    runtime::{Address, Value},
};

/// A server that serves slots, and the links to it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) address: Address,
    /// The links for commands, for replicas, and for renewals.
    links: [OnceLock<Arc<Link>>; 3],
    /// The largest number of replicas that the server ever had. Each observer may raise it.
    pub(super) replicas: Arc<AtomicU32>,
}

/// A range of slots and its master, as a server reported them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(super) master: Address,
    /// The number of replicas.
    pub(super) replicas: u32,
    /// The usable addresses of the replicas, as far as the server knows them.
    pub(super) followers: Vec<Address>,
}

/// The node of every slot, as far as known.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// First slot of each range → its node. No known node serves a slot before the first range, or
    /// in a range with `None`.
    ranges: BTreeMap<u16, Option<Arc<Node>>>,
    /// All nodes that serve slots or were named in a redirection.
    nodes: BTreeMap<Address, Arc<Node>>,
    /// The node that the last redirection named, which is asked first.
    pub(super) hint: Option<Address>,
    /// Why the last look for the nodes found nothing.
    pub(super) trouble: Option<Error>,
}

impl Node {
    /// Returns the link of `class`, which `start` creates at the first use.
    pub(super) fn link(
        &self,
        class: LinkClass,
        start: impl FnOnce(&Address) -> Arc<Link>,
    ) -> &Arc<Link> {
        self.links[class as usize].get_or_init(|| start(&self.address))
    }

    /// Returns the existing links.
    pub(super) fn links(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.links.iter().filter_map(OnceLock::get)
    }

    /// Returns the existing links that no other link can replace.
    pub(super) fn needed_links(&self) -> impl Iterator<Item = &Arc<Link>> {
        // A command link replaces a renewal link.
        self.links[..LinkClass::Renewal as usize]
            .iter()
            .filter_map(OnceLock::get)
    }
}

impl Shard {
    /// Creates a range of all slots.
    pub(super) fn whole(master: Address, followers: Vec<Address>) -> Self {
        Self {
            first: 0,
            last: SLOTS - 1,
            master,
            replicas: u32::try_from(followers.len()).unwrap_or(u32::MAX),
            followers,
        }
    }
}

impl Routes {
    /// Creates routes from every slot to `address`.
    pub(super) fn whole(address: Address) -> Self {
        let mut routes = Self::default();
        routes.replace(&[Shard::whole(address, Vec::new())]);
        routes
    }

    /// Returns the node that serves `slot`.
    pub(super) fn node(&self, slot: u16) -> Option<&Arc<Node>> {
        node_of(&self.ranges, slot)
    }

    /// Returns the node at `address`, even if it serves no slots.
    pub(super) fn node_at(&mut self, address: &Address) -> &Arc<Node> {
        self.nodes.entry(address.clone()).or_insert_with(|| {
            Arc::new(Node {
                address: address.clone(),
                links: Default::default(),
                replicas: Arc::default(),
            })
        })
    }

    /// Assigns `slot` to the node at `address`, as a redirection says. Returns whether this is a
    /// change.
    pub(super) fn assign(&mut self, slot: u16, address: &Address) -> bool {
        self.hint = Some(address.clone());
        let before = self.node(slot).cloned();
        if before.as_ref().is_some_and(|node| node.address == *address) {
            return false;
        }
        let node = Arc::clone(self.node_at(address));
        if slot + 1 < SLOTS {
            // The rest of the range keeps its node.
            self.ranges.entry(slot + 1).or_insert(before);
        }
        self.ranges.insert(slot, Some(node));
        true
    }

    /// Replaces all routes. Returns whether any route changed, and the nodes that serve no slots
    /// any more.
    pub(super) fn replace(&mut self, shards: &[Shard]) -> (bool, Vec<Arc<Node>>) {
        let mut ranges = BTreeMap::new();
        let mut shards: Vec<_> = shards.iter().collect();
        shards.sort_by_key(|shard| shard.first);
        let mut next = 0;
        for shard in shards {
            if shard.first > next {
                ranges.insert(next, None);
            }
            // A promoted replica has one replica less, but the majority is still counted with the
            // former number.
            let before = self.node(shard.first);
            let before = before.map_or(0, |node| node.replicas.load(Ordering::Relaxed));
            let node = self.node_at(&shard.master);
            node.replicas
                .fetch_max(before.max(shard.replicas), Ordering::Relaxed);
            ranges.insert(shard.first, Some(Arc::clone(node)));
            next = shard.last + 1;
        }
        if next < SLOTS {
            ranges.insert(next, None);
        }
        // The old and the new routes can differ only from the first slot of some range on.
        let changed = (0..SLOTS)
            .filter(|slot| ranges.contains_key(slot) || self.ranges.contains_key(slot))
            .any(|slot| {
                let (before, after) = (self.node(slot), node_of(&ranges, slot));
                before.map(|node| &node.address) != after.map(|node| &node.address)
            });
        self.ranges = ranges;
        let masters: BTreeSet<Address> = self.masters().into_iter().collect();
        let nodes = std::mem::take(&mut self.nodes).into_iter();
        let gone: BTreeMap<_, _>;
        (self.nodes, gone) = nodes.partition(|(address, _)| masters.contains(address));
        (changed, gone.into_values().collect())
    }

    /// Returns the addresses of all nodes that serve slots, in order.
    pub(super) fn masters(&self) -> Vec<Address> {
        let masters = self.ranges.values().flatten();
        let masters: BTreeSet<&Address> = masters.map(|node| &node.address).collect();
        masters.into_iter().cloned().collect()
    }

    /// Returns all nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// Returns one slot of every node that serves slots.
    pub(super) fn one_slot_per_node(&self) -> Vec<u16> {
        let mut seen = BTreeMap::new();
        for (&slot, node) in &self.ranges {
            if let Some(node) = node {
                seen.entry(&node.address).or_insert(slot);
            }
        }
        seen.into_values().collect()
    }

    /// Returns whether every slot has a node.
    pub(super) fn is_complete(&self) -> bool {
        self.ranges.contains_key(&0) && self.ranges.values().all(Option::is_some)
    }

    /// Returns the ranges of slots without a node, such as `0-99 5461`; `None` if there are none,
    /// or if no node is known.
    pub(super) fn unserved(&self) -> Option<String> {
        let nodes = self.ranges.values().any(Option::is_some);
        let ends = self.ranges.keys().skip(1).copied().chain([SLOTS]);
        let gaps = self.ranges.iter().zip(ends);
        let gaps = gaps.filter(|((_, node), _)| node.is_none());
        let gaps: Vec<_> = gaps
            .map(|((&first, _), end)| match end - 1 {
                last if last == first => first.to_string(),
                last => format!("{first}-{last}"),
            })
            .collect();
        (nodes && !gaps.is_empty()).then(|| gaps.join(" "))
    }
}

fn node_of(ranges: &BTreeMap<u16, Option<Arc<Node>>>, slot: u16) -> Option<&Arc<Node>> {
    ranges.range(..=slot).next_back()?.1.as_ref()
}

/// Reads the reply to `CLUSTER SLOTS`. Returns `None` for any other reply. Skips nodes without a
/// usable address.
pub(crate) fn slots(
    reply: &Value,
    address: impl Fn(&str, u16) -> Option<Address>,
) -> Option<Vec<Shard>> {
    let mut shards = Vec::new();
    for range in reply.as_array()? {
        let [first, last, nodes @ ..] = range.as_array()? else {
            return None;
        };
        let slot = |value: &Value| {
            let slot = u16::try_from(value.as_int()?).ok()?;
            (slot < SLOTS).then_some(slot)
        };
        let (first, last) = (slot(first)?, slot(last)?);
        let usable = |(host, port): (&str, u16)| {
            is_possible(host, port)
                .then(|| address(host, port))
                .flatten()
        };
        let master = usable(announced(nodes.first()?)?);
        if let Some(master) = master
            && first <= last
        {
            let followers = nodes[1..].iter().filter_map(announced);
            shards.push(Shard {
                first,
                last,
                master,
                replicas: u32::try_from(nodes.len() - 1).unwrap_or(u32::MAX),
                followers: followers.filter_map(usable).collect(),
            });
        }
    }
    shards.sort_by_key(|shard| shard.first);
    let overlap = shards.windows(2).any(|pair| pair[1].first <= pair[0].last);
    (!overlap).then_some(shards)
}

/// Returns the servers that may take over from the masters, without duplicates.
pub(super) fn others(shards: &[Shard]) -> Vec<Address> {
    let others: BTreeSet<_> = shards.iter().flat_map(|shard| &shard.followers).collect();
    others.into_iter().cloned().collect()
}

/// Reads the address of a node in the reply to `CLUSTER SLOTS`. An empty host means the node that
/// was asked.
fn announced(node: &Value) -> Option<(&str, u16)> {
    let [host, port, ..] = node.as_array()? else {
        return None;
    };
    let host = match host {
        Value::Nil => "",
        host => host.as_str()?,
    };
    Some((host, u16::try_from(port.as_int()?).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::{btree_set, vec},
        prelude::*,
    };

    use super::*;
    use crate::{
        net::HostPort,
        runtime::values::{any_value, bulk, damaged, host_and_port, many_cases},
    };

    fn at(port: u16) -> Address {
        tcp("h", port).unwrap()
    }

    fn shard(first: u16, last: u16, port: u16) -> Shard {
        let whole = Shard::whole(at(port), Vec::new());
        Shard {
            first,
            last,
            ..whole
        }
    }

    fn port(routes: &Routes, slot: u16) -> Option<u16> {
        match &routes.node(slot)?.address {
            Address::Tcp { port, .. } => Some(*port),
            _ => None,
        }
    }

    #[test]
    fn slots_without_a_range_have_no_node() {
        let mut routes = Routes::default();
        assert_eq!((port(&routes, 0), routes.unserved()), (None, None));
        let (changed, gone) = routes.replace(&[shard(100, 200, 1), shard(300, 16383, 2)]);
        assert!(changed && gone.is_empty() && !routes.is_complete());
        assert_eq!(routes.unserved().as_deref(), Some("0-99 201-299"));
        for (slot, expected) in [
            (0, None),
            (99, None),
            (100, Some(1)),
            (200, Some(1)),
            (201, None),
            (16383, Some(2)),
        ] {
            assert_eq!(port(&routes, slot), expected, "{slot}");
        }
        assert!(
            !routes
                .replace(&[shard(300, 16383, 2), shard(100, 200, 1)])
                .0
        );
    }

    #[test]
    fn a_node_keeps_its_links_and_goes_with_its_last_slot() {
        let mut routes = Routes::default();
        routes.replace(&[shard(0, 8191, 1), shard(8192, 16383, 2)]);
        let first = Arc::clone(routes.node(0).unwrap());
        let (changed, gone) = routes.replace(&[shard(0, 8191, 1), shard(8192, 16383, 3)]);
        assert!(changed && Arc::ptr_eq(routes.node(0).unwrap(), &first));
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].address, at(2));
        assert_eq!(routes.masters(), [at(1), at(3)]);
        assert_eq!(routes.one_slot_per_node(), [0, 8192]);
    }

    #[test]
    fn the_most_replicas_ever_seen_count() {
        let mut routes = Routes::default();
        let with = |replicas, port| Shard {
            replicas,
            ..shard(0, 16383, port)
        };
        let seen = |routes: &Routes| routes.node(0).unwrap().replicas.load(Ordering::Relaxed);
        routes.replace(&[with(2, 1)]);
        routes.replace(&[with(1, 1)]);
        assert_eq!(seen(&routes), 2);
        routes.replace(&[with(1, 2)]);
        assert_eq!(seen(&routes), 2, "a failover makes no smaller group");
    }

    fn entry(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), bulk("id")])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let mut items = vec![Value::Int(first), Value::Int(last)];
        items.extend(nodes);
        Value::Array(items)
    }

    /// A node without a host is the one that was asked.
    #[test]
    fn empty_host_stands_for_the_node_that_was_asked() {
        let nodes = vec![entry(Value::Nil, 1), entry(Value::Nil, 3)];
        let reply = Value::Array(vec![range(0, 9, nodes)]);
        let asked = |host: &str, port| {
            assert_eq!(host, "");
            tcp("asked", port)
        };
        let shards = slots(&reply, asked).unwrap();
        assert_eq!(shards[0].master, tcp("asked", 1).unwrap());
        assert_eq!(others(&shards), [tcp("asked", 3).unwrap()]);
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_none() {
        let a = || vec![entry(bulk("a"), 1)];
        for ranges in [
            vec![range(0, 16384, a())],
            vec![range(-1, 5, a())],
            vec![range(0, 10, a()), range(10, 20, a())],
            vec![range(0, 10, vec![])],
            vec![bulk("x")],
            vec![range(0, 10, vec![entry(bulk("a"), 70_000)])],
            vec![range(0, 10, vec![entry(Value::Int(7), 1)])],
        ] {
            assert_eq!(
                slots(&Value::Array(ranges.clone()), tcp),
                None,
                "{ranges:?}"
            );
        }
    }

    #[test]
    fn nodes_without_a_usable_address_are_skipped() {
        let ranges = vec![
            range(0, 9, vec![entry(bulk("a"), 0)]),
            range(10, 19, vec![entry(bulk("a b"), 1)]),
            range(20, 29, vec![entry(bulk("c"), 1), entry(bulk("d"), 0)]),
        ];
        let reply = Value::Array(ranges);
        let shards = slots(&reply, tcp).unwrap();
        assert_eq!(
            (shards.len(), shards[0].first, shards[0].replicas),
            (1, 20, 1)
        );
        assert_eq!(others(&shards), []);
    }

    fn tcp(host: &str, port: u16) -> Option<Address> {
        let host = host.to_owned();
        Some(Address::Tcp { host, port })
    }

    fn all_of(nodes: &[HostPort]) -> impl Iterator<Item = Address> {
        nodes.iter().filter_map(|(host, port)| tcp(host, *port))
    }

    /// The shards of a cluster: first slot, last slot, and the nodes with the master first.
    type Layout = Vec<(u16, u16, Vec<HostPort>)>;

    fn layout() -> impl Strategy<Value = Layout> {
        let nodes = vec(host_and_port(), 1..4);
        let parts = (btree_set(0..SLOTS, 2..12), vec(nodes, 6));
        parts.prop_map(|(bounds, nodes)| {
            let bounds: Vec<_> = bounds.into_iter().collect();
            let shards = bounds.chunks_exact(2).zip(nodes);
            let shard = |(bounds, nodes): (&[u16], _)| (bounds[0], bounds[1], nodes);
            shards.map(shard).collect()
        })
    }

    /// Returns the reply to `CLUSTER SLOTS`, with the last shard first.
    fn reply_of(layout: &Layout) -> Value {
        let ranges = layout.iter().rev().map(|(first, last, nodes)| {
            let nodes = nodes.iter();
            let nodes = nodes.map(|(host, port)| entry(bulk(host), (*port).into()));
            range((*first).into(), (*last).into(), nodes.collect())
        });
        Value::Array(ranges.collect())
    }

    /// Returns replies to `CLUSTER SLOTS` whose ranges may overlap, run backwards, or be too large.
    fn any_ranges() -> impl Strategy<Value = Value> {
        let bounds = (-1..i64::from(SLOTS) + 2, -1..i64::from(SLOTS) + 2);
        let one = |(first, last)| range(first, last, vec![entry(bulk("a"), 1)]);
        vec(bounds.prop_map(one), 0..4).prop_map(Value::Array)
    }

    const WORDS: &[&str] = &["", "a", "a b", "\r\n", "0", "7", "70000"];

    proptest! {
        #[test]
        fn one_slot_is_moved_and_no_other(moves in vec((0_u16..SLOTS, 1_u16..5), 0..60)) {
            let mut routes = Routes::whole(at(1));
            let mut model = vec![1_u16; usize::from(SLOTS)];
            for (slot, to) in moves {
                let changed = routes.assign(slot, &at(to));
                prop_assert_eq!(changed, std::mem::replace(&mut model[usize::from(slot)], to) != to);
            }
            for slot in 0..SLOTS {
                prop_assert_eq!(port(&routes, slot), Some(model[usize::from(slot)]));
            }
            prop_assert!(routes.is_complete() && routes.unserved().is_none());
        }
    }

    proptest! {
        #![proptest_config(many_cases())]

        #[test]
        fn slots_and_replicas_are_read_as_written(layout in layout()) {
            let reply = reply_of(&layout);
            let shards = layout.iter().map(|(first, last, nodes)| Shard {
                first: *first,
                last: *last,
                master: tcp(&nodes[0].0, nodes[0].1).unwrap(),
                replicas: u32::try_from(nodes.len() - 1).unwrap(),
                followers: all_of(&nodes[1..]).collect(),
            });
            let shards: Vec<_> = shards.collect();
            prop_assert_eq!(slots(&reply, tcp), Some(shards.clone()));
            let replicas = layout.iter().flat_map(|(.., nodes)| all_of(&nodes[1..]));
            let replicas = BTreeSet::from_iter(replicas);
            prop_assert_eq!(others(&shards), Vec::from_iter(replicas));
        }

        #[test]
        fn shards_of_any_reply_are_in_order_and_apart(
            reply in prop_oneof![
                any_value(WORDS),
                any_ranges(),
                damaged(layout().prop_map(|layout| reply_of(&layout)), WORDS),
            ],
        ) {
            let shards = slots(&reply, tcp).unwrap_or_default();
            prop_assert!(shards.iter().all(|shard| shard.first <= shard.last && shard.last < SLOTS));
            prop_assert!(shards.windows(2).all(|pair| pair[0].last < pair[1].first));
            let replicas = others(&shards);
            prop_assert!(replicas.windows(2).all(|pair| pair[0] < pair[1]));
            for address in shards.iter().map(|shard| &shard.master).chain(&replicas) {
                let Address::Tcp { host, port } = address else {
                    unreachable!("they are made so")
                };
                prop_assert!(is_possible(host, *port), "{address:?}");
            }
        }
    }
}
