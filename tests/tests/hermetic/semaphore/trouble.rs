//! Many waiters of a semaphore that end at once.

use futures_util::future::join_all;
use redlatch::ErrorKind;
use redlatch_behaviours::prelude::*;

#[tokio::test(start_paused = true)]
async fn deletion_ends_all_waits_for_permits_with_an_id_at_once() {
    let (backend, [client, other]) = embedded().await;
    let permits = client.permit_expirable_semaphore("x");
    permits.set_permits(1).await.unwrap();
    permits.acquire().lease(600 * SECOND).await.unwrap();
    let waits = join_all((0..6).map(|_| permits.acquire().into_future()));
    let waits = tokio::spawn(waits);
    backend.pass(SECOND).await;
    assert!(!waits.is_finished());
    assert!(
        other
            .permit_expirable_semaphore("x")
            .delete()
            .await
            .unwrap()
    );
    let start = Instant::now();
    for ended in waits.await.unwrap() {
        assert_fails(ended, ErrorKind::NotSet);
    }
    assert!(start.elapsed() < 50 * MS, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn release_of_many_permits_serves_all_waiters_at_once() {
    for waiters in [17, 200] {
        let (backend, [client, other]) = embedded().await;
        let semaphore = client.semaphore("x").permits_if_unset(waiters);
        let all = semaphore.acquire_many(waiters).await.unwrap();
        let waits = join_all((0..waiters).map(|_| other.semaphore("x").acquire().into_future()));
        let served = tokio::spawn(waits);
        backend.pass(SECOND).await;
        all.release().await.unwrap();
        backend.pass(100 * MS).await;
        assert!(served.is_finished(), "{waiters} waiters");
        for permit in served.await.unwrap() {
            drop(permit.unwrap());
        }
    }
}
