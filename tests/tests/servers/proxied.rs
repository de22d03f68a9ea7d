//! Proxies in front of the nodes of a cluster: replies that are lost, and a node that is mute for
//! one client.

use redlatch::{Client, HoldState, Released};
use redlatch_core::family::slot_of;
use redlatch_lua::REENTRANT;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{MS, SECOND, call, key, preload},
    proxy::{Proxy, Then},
    server::ServerBinary,
};

use super::support::{name_on, take_and_free};

redlatch_tests::on_every_server!(
    replies_of_a_cluster_that_are_lost_count_once,
    redirects_to_an_absent_node_only_delay,
    node_that_is_silent_for_one_client_does_not_affect_others,
);

/// A client with a proxy of its own before each node: nodes tell of each other, and it knows the
/// way round.
async fn behind_proxies(backend: &Backend) -> (Client, Vec<Proxy>) {
    let nodes = backend.as_cluster().nodes();
    let proxies: Vec<_> = nodes
        .iter()
        .map(|node| Proxy::start(node.address()))
        .collect();
    let fronts: Vec<_> = proxies
        .iter()
        .map(|proxy| proxy.address().to_string())
        .collect();
    let mut builder = Client::builder(&format!("redis+cluster://{}", fronts.join(",")));
    for (node, front) in nodes.iter().zip(&fronts) {
        builder = builder.announced_as(&node.address().to_string(), front);
    }
    (builder.connect().await.unwrap(), proxies)
}

// L1
async fn replies_of_a_cluster_that_are_lost_count_once(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let (client, proxies) = behind_proxies(&backend).await;
    for (at, node) in cluster.nodes().iter().enumerate() {
        preload(node);
        let name = name_on(cluster, node, "n");
        for then in [Then::Cut, Then::Stall] {
            let acquire = proxies[at].drop_reply(call(node, &REENTRANT.acquire, &name), then);
            // A request waits for a sixth of the lease.
            let lock = client.lock(&name).lock().renewed_lease(2 * SECOND);
            let guard = lock.await.unwrap();
            acquire.answered().await;
            let release = proxies[at].drop_reply(call(node, &REENTRANT.release, &name), then);
            let released = guard.release().await.unwrap();
            release.answered().await;
            assert_eq!(released, Released::Free, "counted once: {then:?} on {name}");
        }
    }
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

/// To where nobody is, to a name that is none, and to itself: each once, and then the truth.
// L45
async fn redirects_to_an_absent_node_only_delay(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let (client, proxies) = behind_proxies(&backend).await;
    let node = &cluster.nodes()[0];
    preload(node);
    let name = name_on(cluster, node, "n");
    let (slot, itself) = (slot_of(key(&name).as_bytes()), node.address());
    let lock = client.lock(&name);
    for to in [
        "127.0.0.1:1",
        "nowhere.invalid:6379",
        "nonsense",
        &itself.to_string(),
    ] {
        for code in ["MOVED", "ASK"] {
            let redirect = format!("-{code} {slot} {to}");
            let told = |script| proxies[0].answer(call(node, script, &name), &redirect);
            let acquire = told(&REENTRANT.acquire);
            let guard = lock.lock().await.unwrap();
            acquire.answered().await;
            let renew = told(&REENTRANT.renew);
            guard.extend(60 * SECOND).await.unwrap();
            renew.answered().await;
            let release = told(&REENTRANT.release);
            assert_eq!(guard.release().await.unwrap(), Released::Free, "{redirect}");
            release.answered().await;
        }
    }
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

// L11
async fn node_that_is_silent_for_one_client_does_not_affect_others(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let cluster = backend.as_cluster();
    let (client, proxies) = behind_proxies(&backend).await;
    let other = backend.client().await;
    let on = |at: usize, stem: &str| name_on(cluster, &cluster.nodes()[at], stem);
    let names = [0, 1, 2].map(|at| on(at, "n"));
    let mut guards = Vec::new();
    for name in &names {
        let lock = client.lock(name).lock().renewed_lease(2 * SECOND);
        guards.push(lock.await.unwrap());
    }
    proxies[0].black_hole();
    take_and_free(&client.lock(on(1, "x")), 50).await;
    take_and_free(&client.lock(on(2, "x")), 50).await;
    take_and_free(&other.lock(on(0, "x")), 50).await;
    guards[0].lost().await;
    backend.pass(1_000 * MS).await;
    assert!(matches!(guards[0].state(), HoldState::Lost(_)));
    for guard in &guards[1..] {
        assert!(!matches!(guard.state(), HoldState::Lost(_)), "{guard:?}");
    }
    proxies[0].pass();
    proxies[0].cut();
    drop(guards);
    take_and_free(&client.lock(on(0, "x")), 5).await;
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}
