//! Grants that replicas have to confirm, in a slot that moves: those of the server that executes
//! are asked, and no others.

use crate::prelude::*;

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
    let other = other_master(cluster, cluster.owner(&key(name)));
    (other, cluster.replicas_of(other)[0])
}

async fn durably(client: &Client, name: &str) -> Result<Option<LockGuard>, Error> {
    let lock = client.lock(name);
    let lock = lock.try_lock().lease(60 * SECOND);
    lock.durability(Durability::Replicas(1)).await
}

/// Lets a replica that stood still go on, and waits until it has what its master has.
fn goes_on(master: &Server, replica: &Server) {
    replica.cont();
    replica.catch_up_with(master);
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
    goes_on(target, replica);
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
    let fixed = durably(&client, "{x}1").await.unwrap().unwrap();
    let lock = client.lock("{x}2");
    let lock = lock.lock().renewed_lease(12 * SECOND);
    let renewed = lock.durability(Durability::Replicas(1)).await.unwrap();
    let (target, replica) = other(&cluster, "x");
    let slot = slot_of(key("x").as_bytes());
    let source = cluster.begin_to_move(slot, target);
    let mut keys = source.keys();
    keys.retain(|key| slot_of(key.as_bytes()) == slot);
    assert!(keys.len() >= 2, "{keys:?}");
    for key in keys {
        cluster.move_key(&key, source, target);
    }
    // From now on each call is sent to the one and executed by the other, for as long as the move
    // lasts.
    fixed.extend(300 * SECOND).await.unwrap();
    assert!(fixed.remaining() > 200 * SECOND, "{fixed:?}");
    // Longer than its lease, so that it was renewed and that was confirmed.
    sleep(14 * SECOND).await;
    renewed.check().unwrap();
    let confirmed = async || renewed.state() == HoldState::Held;
    wait_for("a renewal to be confirmed", confirmed).await;
    replica.stop();
    assert_short(fixed.extend(600 * SECOND).await);
    assert!(fixed.remaining() < 301 * SECOND, "{fixed:?}");
    goes_on(target, replica);
    fixed.extend(600 * SECOND).await.unwrap();
    assert_eq!(fixed.release().await.unwrap(), Released::Free);
    renewed.release().await.unwrap();
    assert_tables_empty(&client).await;
}
