//! Grants and renewals that replicas have to confirm.

use crate::{prelude::*, support::cut_off};

redlatch_tests::on_every_server!(
    guard_reports_how_many_replicas_confirmed,
    replica_shortfall_is_an_error_and_undone,
    a_renewal_that_is_not_confirmed_does_not_count,
    an_extension_that_is_not_confirmed_does_not_count,
    lossy_failover_keeps_exclusion_with_all_replicas,
);

fn replicated(binary: &ServerBinary, replicas: usize) -> Replicated {
    Replicated::start(binary, replicas, &ServerOptions::new())
}

async fn guard_reports_how_many_replicas_confirmed(binary: ServerBinary) {
    let servers = replicated(&binary, 2);
    let client = Client::connect(&servers.url()).await.unwrap();
    let lock = client.lock("x");
    for (durability, at_least) in [
        (Durability::Master, 0),
        (Durability::Replicas(0), 0),
        (Durability::Replicas(1), 1),
        (Durability::Replicas(2), 2),
        (Durability::Majority, 1),
    ] {
        let guard = lock.lock().durability(durability).await.unwrap();
        assert!(guard.acknowledged() >= at_least, "{durability:?}");
        if at_least == 0 {
            assert_eq!(guard.acknowledged(), 0);
        }
        guard.extend(60 * SECOND).await.unwrap();
        guard.release().await.unwrap();
    }
    // The first call over the durable link found no script.
    servers.master().script_flush();
    let locking = lock.lock().durability(Durability::Replicas(2));
    let guard = locking.await.unwrap();
    assert_eq!(guard.acknowledged(), 2);
    drop(guard);
    assert_tables_empty(&client).await;
}

// L48
async fn replica_shortfall_is_an_error_and_undone(binary: ServerBinary) {
    let servers = replicated(&binary, 2);
    let [a, b] = pair(&servers.url()).await;
    let replicas: Vec<_> = servers.servers()[1..].iter().collect();
    replicas[0].stop();
    let lock = a.lock("x");
    let guard = lock.lock().durability(Durability::Majority).await.unwrap();
    assert_eq!(guard.acknowledged(), 1, "one of two is enough");
    guard.release().await.unwrap();
    for durability in [Durability::Replicas(2), Durability::Replicas(7)] {
        let error = lock.try_lock().durability(durability).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnoughReplicas, "{error:?}");
        assert!(!error.is_not_executed(), "it was taken, and is given back");
        a.settled().await;
        let guard = b.lock("x").try_lock().await.unwrap().expect("it is free");
        guard.release().await.unwrap();
    }
    replicas[1].stop();
    let locking = lock.lock().durability(Durability::Majority);
    let error = locking.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEnoughReplicas, "{error:?}");
    // Who does not ask for replicas is not held up by those who do.
    take_and_free(&lock, 1).await;
    for replica in replicas {
        replica.cont();
    }
    assert_all_empty([&a, &b]).await;
}

async fn a_renewal_that_is_not_confirmed_does_not_count(binary: ServerBinary) {
    let (servers, client) = with_one_replica(&binary).await;
    let durable = client.lock("x");
    let durable = durable.lock().durability(Durability::Replicas(1));
    // A replica has a sixth of the lease to confirm.
    let durable = durable.renewed_lease(6 * SECOND).await.unwrap();
    let plain = client.lock("y").lock().renewed_lease(6 * SECOND);
    let plain = plain.await.unwrap();
    sleep(3 * SECOND).await;
    assert!(durable.remaining() > 3 * SECOND, "{durable:?}");
    assert_eq!(durable.state(), HoldState::Held, "it is confirmed");
    servers.servers()[1].stop();
    assert_eq!(durable.lost().await, LossCause::Unreachable);
    assert_eq!(plain.state(), HoldState::Held);
    servers.servers()[1].cont();
    drop((durable, plain));
    assert_tables_empty(&client).await;
}

async fn an_extension_that_is_not_confirmed_does_not_count(binary: ServerBinary) {
    let (servers, client) = with_one_replica(&binary).await;
    let lock = client.lock("x");
    let durable = lock.lock().durability(Durability::Replicas(1));
    let guard = durable.lease(60 * SECOND).await.unwrap();
    guard.extend(300 * SECOND).await.unwrap();
    assert!(guard.remaining() > 200 * SECOND, "{guard:?}");
    let replica = &servers.servers()[1];
    replica.stop();
    let error = guard.extend(1200 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEnoughReplicas, "{error:?}");
    assert!(!error.is_not_executed(), "the master has it");
    assert!(guard.remaining() < 301 * SECOND, "{guard:?}");
    guard.check().unwrap();
    replica.cont();
    guard.extend(1200 * SECOND).await.unwrap();
    assert!(guard.remaining() > 1000 * SECOND, "{guard:?}");
    guard.release().await.unwrap();
    assert_tables_empty(&client).await;
}

async fn lossy_failover_keeps_exclusion_with_all_replicas(binary: ServerBinary) {
    let servers = replicated(&binary, 1);
    let [a, b] = pair(&servers.url()).await;
    let [master, replica] = servers.servers() else {
        panic!("there are two")
    };
    let all = Durability::Replicas(1);
    // One that the replica has confirmed is known to the new master.
    let kept = a.lock("kept").lock().lease(60 * SECOND);
    let kept = kept.durability(all).await.unwrap();
    cut_off(master, replica);
    let lock = a.lock("x");
    let first = lock.lock().lease(60 * SECOND).durability(all).await;
    assert_eq!(first.unwrap_err().kind(), ErrorKind::NotEnoughReplicas);
    master.kill();
    replica.cont();
    servers.promote(1);
    let second = b.lock("x").lock().lease(60 * SECOND).await.unwrap();
    assert!(b.lock("kept").try_lock().await.unwrap().is_none());
    assert_eq!(kept.state(), HoldState::Held);
    drop((kept, second));
    assert_all_empty([&a, &b]).await;
}
