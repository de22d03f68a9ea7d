//! A cluster: routing, redirections, slots on the move, nodes that fail.

use std::collections::BTreeMap;

use crate::prelude::*;

redlatch_tests::on_every_server!(
    names_of_all_slots_are_held_through_any_node,
    topology_is_asked_on_change_only,
    announced_addresses_are_mapped,
);

// L17
async fn names_of_all_slots_are_held_through_any_node(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let port = cluster.masters()[1].port();
    let client = Client::connect(&format!("redis+cluster://127.0.0.1:{port}"))
        .await
        .unwrap();
    let mut guards = Vec::new();
    for n in 0..300 {
        guards.push(client.lock(format!("name {n}")).lock().await.unwrap());
    }
    let masters = cluster.masters().into_iter();
    let held: Vec<_> = masters.map(|master| master.keys().len()).collect();
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
    let cluster = backend.as_cluster();
    let client = backend.client().await;
    // The first call on each node puts the script there.
    for _ in 0..2 {
        for master in cluster.masters() {
            master.reset_stats();
        }
        for n in 0..100 {
            take_and_free(&client.lock(format!("name {n}")), 1).await;
        }
    }
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for master in cluster.masters() {
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

/// The servers call themselves by a name that nobody resolves.
async fn announced_addresses_are_mapped(binary: ServerBinary) {
    if binary.version < redlatch_tests::server::Version(7, 0, 0) {
        return refuses_names_of_nodes(&binary);
    }
    let node = ServerOptions::new().config("cluster-preferred-endpoint-type hostname");
    let cluster = three(&binary, node);
    let mut builder = Client::builder(&cluster.url());
    for node in cluster.nodes() {
        node.config_set("cluster-announce-hostname", "nowhere.invalid");
        let announced = format!("nowhere.invalid:{}", node.port());
        builder = builder.announced_as(&announced, &node.address().to_string());
    }
    wait_for("the nodes to know each other's names", async || {
        cluster.nodes().iter().all(|node| {
            let slots = node.command(&["CLUSTER", "SLOTS"]).array();
            slots.into_iter().all(|range| {
                let owner = range.array()[2].clone().array();
                owner[0] == redlatch_tests::server::Reply::Bulk(b"nowhere.invalid".to_vec())
            })
        })
    })
    .await;
    let client = builder.connect().await.unwrap();
    for n in 0..20 {
        take_and_free(&client.lock(format!("n{n}")), 1).await;
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
