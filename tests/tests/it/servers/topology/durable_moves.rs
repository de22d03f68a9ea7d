//! Grants that replicas have to confirm, in a slot that moves: those of the server that executes are asked, and no others.

use redlatch::{Client, Durability, Error, ErrorKind, LockGuard};
use redlatch_core::protocol::slot::slot_of;
use redlatch_tests::{
    backend::assert_tables_empty,
    server::{Cluster, ClusterOptions, Server, ServerBinary},
};

use crate::servers::support::{SECOND, key};

redlatch_tests::on_every_server!(
    a_moved_slot_is_confirmed_by_replicas_of_its_new_master,
    a_slot_on_the_move_is_confirmed_by_replicas_of_its_next_master,
);

/// Two masters with a replica each, and a client that knows them.
async fn start(binary: &ServerBinary) -> (Cluster, Client) {
    let options = ClusterOptions {
        masters: 2,
        replicas: 1,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(binary, &options);
    let client = Client::connect(&cluster.url()).await.unwrap();
    (cluster, client)
}

/// Returns a master that is not in charge of `name`, and its replica.
fn other<'a>(cluster: &'a Cluster, name: &str) -> (&'a Server, &'a Server) {
    let owner = cluster.owner(&key(name)).port();
    let mut masters = cluster.masters().into_iter();
    let other = masters.find(|master| master.port() != owner).unwrap();
    (other, cluster.replicas_of(other)[0])
}

async fn durably(client: &Client, name: &str) -> Result<Option<LockGuard>, Error> {
    let lock = client.lock(name);
    let lock = lock.try_lock().lease(60 * SECOND);
    lock.durability(Durability::Replicas(1)).await
}

fn assert_short<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEnoughReplicas, "{error:?}");
}

async fn a_moved_slot_is_confirmed_by_replicas_of_its_new_master(binary: ServerBinary) {
    let (cluster, client) = start(&binary).await;
    // Whoever is in charge at first confirms; the client knows no better until it is told.
    let first = durably(&client, "{x}1").await.unwrap().unwrap();
    assert_eq!(first.acknowledged(), 1);
    let (target, replica) = other(&cluster, "x");
    cluster.migrate(slot_of(key("x").as_bytes()), target, 10);
    replica.stop();
    assert_short(durably(&client, "{x}2").await);
    assert_short(first.extend(600 * SECOND).await);
    assert!(first.remaining() < 61 * SECOND, "{first:?}");
    replica.cont();
    first.extend(600 * SECOND).await.unwrap();
    client.settled().await;
    let second = durably(&client, "{x}2").await.unwrap().unwrap();
    assert_eq!(second.acknowledged(), 1);
    first.release().await.unwrap();
    second.release().await.unwrap();
    assert_tables_empty(&client).await;
}

async fn a_slot_on_the_move_is_confirmed_by_replicas_of_its_next_master(binary: ServerBinary) {
    let (cluster, client) = start(&binary).await;
    let first = durably(&client, "{x}1").await.unwrap().unwrap();
    let (target, replica) = other(&cluster, "x");
    let source = cluster.begin_to_move(slot_of(key("x").as_bytes()), target);
    for key in source.keys() {
        cluster.move_key(&key, source, target);
    }
    // Each call is sent to the one and answered by the other, for as long as it lasts.
    let second = durably(&client, "{x}2").await.unwrap().unwrap();
    assert_eq!(second.acknowledged(), 1);
    second.release().await.unwrap();
    first.extend(300 * SECOND).await.unwrap();
    replica.stop();
    assert_short(durably(&client, "{x}2").await);
    assert_short(first.extend(600 * SECOND).await);
    replica.cont();
    client.settled().await;
    let third = durably(&client, "{x}2").await.unwrap().unwrap();
    third.release().await.unwrap();
    first.release().await.unwrap();
    assert_tables_empty(&client).await;
}
