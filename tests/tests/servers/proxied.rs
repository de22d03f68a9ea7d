//! Proxies in front of the nodes of a cluster: replies that are lost, and redirections to nowhere.

use redlatch_lua::REENTRANT;

use crate::prelude::*;

redlatch_tests::on_every_server!(
    replies_of_a_cluster_that_are_lost_count_once,
    redirects_to_an_absent_node_only_delay,
);

/// A client with a proxy of its own before each node: nodes tell of each other, and it knows the
/// way round.
async fn behind_proxies(backend: &Backend) -> (Client, Vec<Proxy>) {
    let nodes = backend.as_cluster().nodes();
    let front = |node: &Server| Proxy::start(node.address());
    let proxies: Vec<_> = nodes.iter().map(front).collect();
    let fronts = proxies.iter().map(|proxy| proxy.address().to_string());
    let fronts: Vec<_> = fronts.collect();
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
    assert_nothing_left(&backend, &[&client]).await;
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
    assert_nothing_left(&backend, &[&client]).await;
}
