//! Readers of the replies that say which servers exist and which of them is a master.

use std::collections::BTreeSet;

use super::{
    routes::Shard,
    servers::{HostPort, is_possible},
};
use crate::{
    protocol::slot::SLOTS,
    runtime::{Address, Value},
};

/// A sentinel's information about the master.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) master: HostPort,
    /// The configuration epoch, which increases with each failover.
    pub(super) epoch: u64,
    pub(super) replicas: u32,
    /// The addresses of the replicas, as far as the sentinel knows them.
    pub(crate) followers: Vec<HostPort>,
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
        let (host, port) = node(nodes.first()?)?;
        if is_possible(host, port)
            && let Some(master) = address(host, port)
            && first <= last
        {
            shards.push(Shard {
                first,
                last,
                master,
                replicas: u32::try_from(nodes.len() - 1).unwrap_or(u32::MAX),
            });
        }
    }
    shards.sort_by_key(|shard| shard.first);
    let overlap = shards.windows(2).any(|pair| pair[1].first <= pair[0].last);
    (!overlap).then_some(shards)
}

/// Reads the replicas in the reply to `CLUSTER SLOTS`, without duplicates.
pub(super) fn replicas(
    reply: &Value,
    address: impl Fn(&str, u16) -> Option<Address>,
) -> Vec<Address> {
    let ranges = reply.as_array().unwrap_or_default().iter();
    let nodes = ranges.flat_map(|range| range.as_array().unwrap_or_default().iter().skip(3));
    let replicas: BTreeSet<Address> = nodes
        .filter_map(node)
        .filter(|(host, port)| is_possible(host, *port))
        .filter_map(|(host, port)| address(host, port))
        .collect();
    replicas.into_iter().collect()
}

/// Reads the address of a node in the reply to `CLUSTER SLOTS`. An empty host means the node that
/// was asked.
fn node(node: &Value) -> Option<(&str, u16)> {
    let [host, port, ..] = node.as_array()? else {
        return None;
    };
    let host = match host {
        Value::Nil => "",
        host => host.as_str()?,
    };
    Some((host, u16::try_from(port.as_int()?).ok()?))
}

/// Reads the replies to `SENTINEL GET-MASTER-ADDR-BY-NAME` and `SENTINEL MASTER`.
pub(crate) fn watched(master: &Value, state: &Value) -> Option<Watched> {
    let [host, port] = master.as_array()? else {
        return None;
    };
    let state = state.as_array()?;
    let field = |name: &str| field(state, name)?.as_int();
    Some(Watched {
        master: server(host, port)?,
        epoch: u64::try_from(field("config-epoch").unwrap_or(0)).ok()?,
        replicas: u32::try_from(field("num-slaves").unwrap_or(0)).ok()?,
        followers: Vec::new(),
    })
}

/// Returns the value of a field in a list of alternating names and values.
fn field<'a>(state: &'a [Value], name: &str) -> Option<&'a Value> {
    let mut pairs = state.chunks_exact(2);
    let pair = pairs.find(|pair| pair[0].as_str() == Some(name))?;
    Some(&pair[1])
}

/// Reads the addresses in the reply to `SENTINEL REPLICAS`. Skips entries without a usable address.
pub(crate) fn followers(reply: &Value) -> Vec<HostPort> {
    let followers = reply.as_array().unwrap_or_default().iter();
    followers
        .filter_map(|follower| {
            let follower = follower.as_array()?;
            server(field(follower, "ip")?, field(follower, "port")?)
        })
        .collect()
}

/// Reads the address of a server that a sentinel names.
fn server(host: &Value, port: &Value) -> Option<HostPort> {
    let host = host.as_str().filter(|host| !host.is_empty())?;
    let port = u16::try_from(port.as_int()?).ok()?;
    is_possible(host, port).then(|| (host.to_owned(), port))
}

/// Returns whether a message is about `service`. The payload is `<name> <old host> <old port> <new
/// host> <new port>`, and a name contains no blanks.
pub(super) fn is_about(payload: &[u8], service: &str) -> bool {
    payload.split(|&byte| byte == b' ').next() == Some(service.as_bytes())
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::{
        collection::{btree_set, vec},
        prelude::*,
    };

    use super::*;
    use crate::runtime::values::{any_value, damaged, many_cases};

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    pub(in crate::net) fn list(items: &[&str]) -> Value {
        Value::Array(items.iter().map(|item| bulk(item)).collect())
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
        assert_eq!(replicas(&reply, asked), [tcp("asked", 3).unwrap()]);
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
        assert_eq!(replicas(&reply, tcp), []);
    }

    #[test]
    fn a_switch_of_another_master_is_not_ours() {
        assert!(is_about(b"main 10.0.0.1 1 10.0.0.2 1", "main"));
        assert!(!is_about(b"mainly 10.0.0.1 1 10.0.0.2 1", "main"));
    }

    fn tcp(host: &str, port: u16) -> Option<Address> {
        let host = host.to_owned();
        Some(Address::Tcp { host, port })
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

    fn host_and_port() -> impl Strategy<Value = HostPort> {
        ("[a-z0-9.:-]{1,12}|a", prop_oneof![1_u16.., Just(7)])
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

    /// Returns the reply to `SENTINEL MASTER`, or one entry of the reply to `SENTINEL REPLICAS`.
    fn state(host: &str, port: u16, epoch: u32, replicas: u32) -> Value {
        let (port, epoch, replicas) = (port.to_string(), epoch.to_string(), replicas.to_string());
        let address = ["name", "ip", "ip", host, "port", &port];
        let rest = ["config-epoch", &epoch, "num-slaves", &replicas];
        list(&[&address[..], &rest].concat())
    }

    pub(in crate::net) const WORDS: &[&str] = &[
        "",
        "a",
        "a b",
        "\r\n",
        "0",
        "7",
        "70000",
        "ip",
        "port",
        "config-epoch",
        "num-slaves",
    ];

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
            });
            prop_assert_eq!(slots(&reply, tcp), Some(shards.collect()));
            let others = layout.iter().flat_map(|(.., nodes)| &nodes[1..]);
            let others: BTreeSet<_> = others.filter_map(|(host, port)| tcp(host, *port)).collect();
            prop_assert_eq!(replicas(&reply, tcp), Vec::from_iter(others));
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
            let replicas = replicas(&reply, tcp);
            prop_assert!(replicas.windows(2).all(|pair| pair[0] < pair[1]));
            for address in shards.iter().map(|shard| &shard.master).chain(&replicas) {
                let Address::Tcp { host, port } = address else {
                    unreachable!("they are made so")
                };
                prop_assert!(is_possible(host, *port), "{address:?}");
            }
        }

        #[test]
        fn sentinels_are_read_as_they_write(
            ((host, port), epoch) in (host_and_port(), any::<u32>()),
            nodes in vec(host_and_port(), 0..4),
        ) {
            let count = u32::try_from(nodes.len()).unwrap();
            let master = list(&[&host, &port.to_string()]);
            let expected = Watched {
                master: (host.clone(), port),
                epoch: epoch.into(),
                replicas: count,
                followers: Vec::new(),
            };
            prop_assert_eq!(watched(&master, &state(&host, port, epoch, count)), Some(expected));
            let entries = nodes.iter().map(|(host, port)| state(host, *port, epoch, 0));
            let portless = [list(&["ip", "a"]), state("a", 0, epoch, 0)];
            let entries = entries.chain(portless).collect();
            prop_assert_eq!(followers(&Value::Array(entries)), nodes);
        }

        #[test]
        fn any_reply_of_a_sentinel_is_read_or_refused(
            master in prop_oneof![any_value(WORDS), damaged(Just(list(&["a", "7"])), WORDS)],
            entry in prop_oneof![any_value(WORDS), damaged(Just(state("a", 7, 1, 1)), WORDS)],
        ) {
            let read = watched(&master, &entry);
            prop_assert!(read.is_none() || entry.as_array().is_some());
            if let Some(read) = &read {
                prop_assert_eq!(Some(read.master.0.as_str()), master.as_array().unwrap()[0].as_str());
            }
            let entries = Value::Array(vec![entry.clone(), entry]);
            let followers = followers(&entries);
            prop_assert!([0, 2].contains(&followers.len()));
            for (host, port) in read.iter().map(|read| &read.master).chain(&followers) {
                prop_assert!(!host.is_empty() && is_possible(host, *port), "{host:?}:{port}");
            }
        }

        #[test]
        fn switch_message_is_about_its_first_word(
            name in "[a-z-]{0,8}", rest in vec(any::<u8>(), 0..12), other in "[a-z-]{0,8}",
        ) {
            let payload = [name.as_bytes(), b" ", &rest].concat();
            prop_assert_eq!(is_about(&payload, &other), name == other);
        }
    }
}
