//! A cluster: routing, redirections, slots on the move, nodes that fail.

use std::collections::BTreeMap;

use redlatch::{Client, ErrorKind, Released};
use redlatch_core::family::slot_of;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{SECOND, key, waiting},
    server::{Cluster, ClusterOptions, Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(
    names_of_all_slots_are_held_through_any_node,
    topology_is_asked_on_change_only,
    client_follows_a_moved_slot,
    server_without_cluster_mode_is_reported,
    announced_addresses_are_mapped,
);

// L17
async fn names_of_all_slots_are_held_through_any_node(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let Backend::Shared(servers) = &backend else {
        panic!("it is shared")
    };
    let port = servers.masters()[1].port();
    let client = Client::connect(&format!("redis+cluster://127.0.0.1:{port}"))
        .await
        .unwrap();
    let mut guards = Vec::new();
    for n in 0..300 {
        guards.push(client.lock(format!("name {n}")).lock().await.unwrap());
    }
    let held: Vec<_> = servers
        .masters()
        .iter()
        .map(|master| master.keys().len())
        .collect();
    assert!(held.iter().all(|&held| held > 50), "{held:?}");
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

// L46
async fn topology_is_asked_on_change_only(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let Backend::Shared(servers) = &backend else {
        panic!("it is shared")
    };
    let client = backend.client().await;
    // The first call on each node puts the script there.
    for n in 0..100 {
        let guard = client.lock(format!("name {n}")).lock().await.unwrap();
        guard.release().await.unwrap();
    }
    for master in servers.masters() {
        master.reset_stats();
    }
    for n in 0..100 {
        let guard = client.lock(format!("name {n}")).lock().await.unwrap();
        guard.release().await.unwrap();
    }
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for master in servers.masters() {
        for (command, count) in master.commandstats() {
            *calls.entry(command).or_default() += count;
        }
    }
    assert_eq!(calls.get("evalsha"), Some(&200), "{calls:?}");
    assert!(!calls.contains_key("eval"), "{calls:?}");
    let asked = |command: &&String| command.starts_with("cluster") || *command == "info";
    // The harness itself asked one node, once, who the masters are, after the counters were set to
    // zero.
    let asked: Vec<_> = calls.keys().filter(asked).map(|name| calls[name]).collect();
    assert!(asked.iter().sum::<u64>() <= 2, "{calls:?}");
}

async fn client_follows_a_moved_slot(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let Backend::Shared(servers) = &backend else {
        panic!("it is shared")
    };
    let cluster = servers.as_cluster();
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().await.unwrap();
    let waiter = waiting(b.lock("x"));
    registered(cluster, "x").await;
    let slot = slot_of(key("x").as_bytes());
    let source = cluster.owner(&key("x")).port();
    let target = *cluster
        .masters()
        .iter()
        .find(|master| master.port() != source)
        .unwrap();
    cluster.migrate(slot, target, 10);
    assert_eq!(cluster.owner(&key("x")).port(), target.port());
    guard.extend(60 * SECOND).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let next = waiter.await.unwrap();
    assert_eq!(next.release().await.unwrap(), Released::Free);
    assert!(target.keys().contains(&key("x")));
    assert_tables_empty(&a).await;
    assert_tables_empty(&b).await;
    backend.assert_only_counters_left();
    // Others want the cluster as it was.
    let source = cluster
        .nodes()
        .iter()
        .find(|node| node.port() == source)
        .unwrap();
    cluster.migrate(slot, source, 10);
    cluster.await_agreement();
}

async fn server_without_cluster_mode_is_reported(binary: ServerBinary) {
    let server = Server::start(&binary, ServerOptions::new());
    let url = format!("redis+cluster://{}", server.address());
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedServer, "{error:?}");
    assert_eq!(server.keys(), [""; 0]);
}

/// The servers call themselves by a name that nobody resolves.
async fn announced_addresses_are_mapped(binary: ServerBinary) {
    let options = ClusterOptions {
        node: ServerOptions::new().config("cluster-preferred-endpoint-type hostname"),
        ..ClusterOptions::default()
    };
    if binary.version < redlatch_tests::server::Version(7, 0, 0) {
        return refuses_names_of_nodes(&binary);
    }
    let cluster = Cluster::start(&binary, &options);
    let mut builder = Client::builder(&cluster.url());
    for node in cluster.nodes() {
        node.config_set("cluster-announce-hostname", "nowhere.invalid");
        let announced = format!("nowhere.invalid:{}", node.port());
        builder = builder.announced_as(&announced, &node.address().to_string());
    }
    eventually(
        "the nodes to know each other's names",
        GENEROUS,
        async || {
            cluster.nodes().iter().all(|node| {
                let slots = node.command(&["CLUSTER", "SLOTS"]).array();
                slots.into_iter().all(|range| {
                    let owner = range.array()[2].clone().array();
                    owner[0] == redlatch_tests::server::Reply::Bulk(b"nowhere.invalid".to_vec())
                })
            })
        },
    )
    .await;
    let client = builder.connect().await.unwrap();
    for n in 0..20 {
        let guard = client.lock(format!("n{n}")).lock().await.unwrap();
        guard.release().await.unwrap();
    }
    assert_tables_empty(&client).await;
}

/// Before 7.0 nodes have addresses only, which the nodes themselves use: there is nothing that a
/// client could have to map.
fn refuses_names_of_nodes(binary: &ServerBinary) {
    let server = Server::start(binary, ServerOptions::new());
    let set = ["CONFIG", "SET", "cluster-announce-hostname", "x"];
    let error = server.command(&set).error().map(str::to_owned);
    let error = error.expect("it has no names for nodes");
    assert!(error.contains("Unsupported CONFIG parameter"), "{error}");
}

/// Waits until the cluster knows that somebody waits for `name`.
async fn registered(cluster: &Cluster, name: &str) {
    let queue = format!("{}:q", key(name));
    eventually("a waiter to register", GENEROUS, async || {
        cluster.command(&["ZCARD", &queue]).unwrap().int() > 0
    })
    .await;
}
