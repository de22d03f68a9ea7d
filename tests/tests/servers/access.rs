//! TLS, and users with few rights, where there are several servers.

use std::{fs, path::PathBuf};

use redlatch::runtime::TlsOptions;
use redlatch_tests::{
    fixture::{documented_rights, waiting},
    server::Certificates,
    wait::unique_name,
};

use crate::prelude::*;

redlatch_tests::on_every_server!(rights_named_in_the_readme_suffice_in_a_cluster);

redlatch_tests::on_servers_with!(
    "TLS", ServerBinary::supports_tls;
    locks_work_in_a_cluster_with_tls,
    locks_work_through_sentinels_with_tls,
    certificate_of_the_client_can_change_while_connected,
);

async fn locks_work_in_a_cluster_with_tls(binary: ServerBinary) {
    let (dir, certificates) = certificates();
    let node = ServerOptions::new()
        .tls_with(&certificates)
        .config("tls-cluster yes");
    let cluster = three(&binary, node);
    let address = cluster.nodes()[0].tls().unwrap().0;
    let url = format!("rediss+cluster://{address}");
    let connect = || Client::builder(&url).tls(trusting(&certificates)).connect();
    let (a, b) = (connect().await.unwrap(), connect().await.unwrap());
    hand_over_on_every_node(&cluster, &a, &b).await;
    let blind = Client::builder(&url).connect_timeout(800 * MS).connect();
    assert_eq!(blind.await.unwrap_err().kind(), ErrorKind::Unavailable);
    fs::remove_dir_all(dir).unwrap();
}

async fn locks_work_through_sentinels_with_tls(binary: ServerBinary) {
    let (dir, certificates) = certificates();
    let tls = || {
        let options = ServerOptions::new().tls_with(&certificates);
        options.config("tls-replication yes")
    };
    let server = Server::start(&binary, tls());
    let master = server.tls().unwrap().0;
    let sentinel = tls().sentinel().config(format!(
        "sentinel monitor main 127.0.0.1 {} 1",
        master.port()
    ));
    let sentinel = Server::start(&binary, sentinel);
    wait_for("the sentinel to see the master", async || {
        let state = sentinel.command(&["SENTINEL", "MASTER", "main"]).array();
        let words: Vec<_> = state.into_iter().map(|word| word.text()).collect();
        words.windows(2).any(|pair| pair == ["flags", "master"])
    })
    .await;
    let url = format!("rediss+sentinel://{}/main", sentinel.tls().unwrap().0);
    let client = Client::builder(&url).tls(trusting(&certificates));
    let client = client.connect().await.unwrap();
    take_and_free(&client.lock("x"), 5).await;
    assert!(server.keys().contains(&key("x")));
    let blind = Client::builder(&url).patience(SECOND).connect_lazy();
    let blind = blind.unwrap();
    let error = blind.lock("x").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    blind.set_tls(trusting(&certificates));
    await_connection(&blind).await;
    let guard = client.lock("x").lock().await.unwrap();
    let waiter = waiting(blind.lock("x"));
    registered(|| &server, "x").await;
    hand_over(guard, waiter).await;
    wait_for("the sentinel to be heard", async || {
        let heard_by = sentinel.command(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        heard_by.text().lines().count() == 2
    })
    .await;
    assert_all_empty([&client, &blind]).await;
    fs::remove_dir_all(dir).unwrap();
}

async fn certificate_of_the_client_can_change_while_connected(binary: ServerBinary) {
    let (dir, certificates) = certificates();
    let server = Server::start(&binary, ServerOptions::new().tls_with(&certificates));
    let url = format!("rediss://{}", server.tls().unwrap().0);
    let builder = Client::builder(&url).tls(trusting(&certificates));
    let client = builder.patience(SECOND).connect().await.unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    server.config_set("tls-auth-clients", "yes");
    take_and_free(&client.lock("y"), 5).await;
    server.client_kill(ClientType::Normal);
    let error = client.lock("y").lock().await.unwrap_err();
    assert!(error.to_string().contains("no TLS"), "{error}");
    let mut tls = trusting(&certificates);
    let read = |file| fs::read(file).unwrap();
    tls.client_pem = Some((
        read(&certificates.client_certificate),
        read(&certificates.client_key),
    ));
    client.set_tls(tls);
    await_connection(&client).await;
    take_and_free(&client.lock("y"), 5).await;
    guard.release().await.unwrap();
    assert_tables_empty(&client).await;
    fs::remove_dir_all(dir).unwrap();
}

async fn rights_named_in_the_readme_suffice_in_a_cluster(binary: ServerBinary) {
    let rights = documented_rights();
    let user = |more: &str| format!("app on >secret {rights} +hello {more}");
    let by_shard = if has_shards(&binary) {
        " +spublish +ssubscribe"
    } else {
        ""
    };
    let node = ServerOptions::new().user(user(&format!("+cluster|slots +asking{by_shard}")));
    let cluster = three(&binary, node);
    let url = cluster.url().replace("://", "://app:secret@");
    // Half of this time they have to find out whether wakes can go by shard.
    let connect = || Client::builder(&url).connect_timeout(60 * SECOND).connect();
    let (a, b) = (connect().await.unwrap(), connect().await.unwrap());
    let verbs = hand_over_on_every_node(&cluster, &a, &b).await;
    let verb = if has_shards(&binary) {
        "SPUBLISH"
    } else {
        "PUBLISH"
    };
    assert_eq!(verbs, [verb; 3]);
    let wrong = cluster.url().replace("://", "://app:guessed@");
    let error = Client::connect(&wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error:?}");
    for node in cluster.nodes() {
        let less = ["ACL", "SETUSER", "app", "-cluster"];
        node.command(&less).unwrap();
    }
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission, "{error:?}");
    // Who knows the topology already goes on.
    take_and_free(&a.lock("x"), 5).await;
}

/// On each node one client waits for what another holds, and is woken. Returns how the waiters
/// wanted to be told.
async fn hand_over_on_every_node(cluster: &Cluster, a: &Client, b: &Client) -> Vec<String> {
    let mut verbs = Vec::new();
    for node in cluster.nodes() {
        let name = name_on(cluster, node, "n");
        let (guard, waiter) = contended(cluster, [a, b], &name).await;
        let address = first_waiter(node, &name);
        verbs.push(address.split(' ').next().unwrap().to_owned());
        guard.extend(60 * SECOND).await.unwrap();
        hand_over(guard, waiter).await;
    }
    assert_all_empty([a, b]).await;
    verbs
}

async fn await_connection(client: &Client) {
    let connected = async || client.ping().await.is_ok();
    wait_for("the client to connect", connected).await;
}

fn certificates() -> (PathBuf, Certificates) {
    let dir = std::env::temp_dir().join(unique_name("redlatch-tls"));
    fs::create_dir_all(&dir).unwrap();
    let certificates = Certificates::make(&dir).unwrap();
    (dir, certificates)
}

fn trusting(certificates: &Certificates) -> TlsOptions {
    let mut options = TlsOptions::default();
    options.root_pem = Some(fs::read(&certificates.authority).unwrap());
    options
}
