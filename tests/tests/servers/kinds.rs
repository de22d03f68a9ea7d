//! Latch and semaphores whose keys are in two places, while their slot moves.

use redlatch::{HoldState, Released, permits::PermitRelease};
use redlatch_core::family::slot_of;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    fixture::{MS, SECOND},
    server::ServerBinary,
};

redlatch_tests::on_every_server!(names_in_a_moving_slot_wait_and_count_once);

/// The keys that decide stay, all others have moved: a script that names more than one is refused
/// until all are in one place, and then runs once. What keeps or ends permits, and who looks at a
/// latch, names one.
// L37
async fn names_in_a_moving_slot_wait_and_count_once(binary: ServerBinary) {
    let backend = Backend::cluster(&binary).await;
    let Backend::Shared(servers) = &backend else {
        panic!("it is shared")
    };
    let cluster = servers.as_cluster();
    let client = backend.client().await;
    let latch = client.count_down_latch("{s}latch");
    let doomed = client.count_down_latch("{s}doomed");
    let semaphore = client.semaphore("{s}semaphore");
    let permits = client.permit_expirable_semaphore("{s}permits");
    latch.try_set_count(5).await.unwrap();
    assert_eq!(latch.count_down(1).await.unwrap(), 4);
    doomed.try_set_count(5).await.unwrap();
    semaphore.set_permits(5).await.unwrap();
    permits.set_permits(5).await.unwrap();
    let mut guard = semaphore.acquire_many(3).await.unwrap();
    let ids = permits.acquire_many(3).lease(60 * SECOND).await.unwrap();

    let slot = slot_of(b"{s}");
    let port = cluster.owner("{s}").port();
    let masters = cluster.masters();
    let target = *masters.iter().find(|master| master.port() != port).unwrap();
    let source = cluster.begin_to_move(slot, target);
    let keys = backend.keys();
    let parts: Vec<_> = keys.iter().filter(|key| !key.contains(":@")).collect();
    // Of a latch what has run, of a pool also who holds.
    assert_eq!(parts.len(), 2 + 3 + 3, "{keys:?}");
    for key in parts {
        cluster.move_key(key, source, target);
    }
    let counting = tokio::spawn({
        let latch = latch.clone();
        async move { latch.count_down(1).await }
    });
    let deleting = tokio::spawn({
        let doomed = doomed.clone();
        async move { doomed.delete().await }
    });
    let adding = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.add_permits(2).await }
    });
    let taking = tokio::spawn({
        let permits = permits.clone();
        async move { permits.acquire_many(2).lease(60 * SECOND).await }
    });
    // What names one key goes on.
    assert_eq!(latch.count().await.unwrap(), 4);
    guard.extend(60 * SECOND).await.unwrap();
    let one = guard.split(1).unwrap().release().await.unwrap();
    assert_eq!(one, Released::StillHeld(2));
    permits.extend(&ids[0], 90 * SECOND).await.unwrap();
    assert!(permits.remaining(&ids[0]).await.unwrap().is_some());
    let released = permits.release(&ids[1]).await.unwrap();
    assert_eq!(released, PermitRelease::Released);
    backend.pass(300 * MS).await;
    for waits in [
        counting.is_finished(),
        deleting.is_finished(),
        adding.is_finished(),
        taking.is_finished(),
    ] {
        assert!(!waits, "it names keys in two places");
    }
    cluster.migrate(slot, target, 10);
    assert_eq!(counting.await.unwrap().unwrap(), 3);
    assert!(deleting.await.unwrap().unwrap());
    assert_eq!(adding.await.unwrap().unwrap(), 7);
    assert_eq!(taking.await.unwrap().unwrap().len(), 2);
    assert_eq!(latch.count().await.unwrap(), 3, "it counted once");
    assert_eq!(doomed.info().await.unwrap(), None);
    let totals = semaphore.totals().await.unwrap();
    assert_eq!((totals.permits, totals.acquired), (7, 2), "{totals:?}");
    assert_eq!(permits.totals().await.unwrap().acquired, 4);
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_tables_empty(&client).await;
    // Others want the cluster as it was, and empty.
    target.flushall();
    cluster.migrate(slot, source, 20);
    cluster.await_agreement();
}
