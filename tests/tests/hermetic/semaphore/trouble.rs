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
