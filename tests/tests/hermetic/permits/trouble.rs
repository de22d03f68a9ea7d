//! Permits, lost replies and deletions.

use redlatch::permits::PermitRelease;
use redlatch_lua::POOL;

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn release_with_a_lost_reply_is_repeated_and_reports_what_is_known() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let (backend, [client]) = preloaded().await;
        let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
        let ids = permits.acquire_many(2).await.unwrap();
        lose_reply(&backend, POOL.release.text, how);
        let result = permits.release(&ids[0]).await.unwrap();
        assert_eq!(result, PermitRelease::Unconfirmed);
        lose_reply(&backend, POOL.renew.text, how);
        permits.extend(&ids[1], 60 * SECOND).await.unwrap();
        assert_eq!(permits.totals().await.unwrap().acquired, 1);
    }
}

// One after another, each would take the client's patience of a server that is slow.
#[tokio::test(start_paused = true)]
async fn permits_with_late_copies_are_returned_at_the_same_time() {
    let (backend, [client]) = preloaded().await;
    let server = backend.embedded_server();
    let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
    lose_reply(&backend, POOL.acquire.text, LostReply::Hangs);
    let ids = permits.acquire_many(3).await.unwrap();
    for id in &ids {
        assert_eq!(id.to_string().matches(':').count(), 3, "{id}");
    }
    server.stop();
    let (semaphore, returned) = (permits.clone(), ids.clone());
    let release = tokio::spawn(async move { semaphore.release_all(&returned).await });
    backend.pass(50 * MS).await;
    release.abort();
    server.resume();
    for id in &ids {
        assert_eq!(permits.remaining(id).await.unwrap(), None, "{id}");
    }
}

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
    let elsewhere = other.permit_expirable_semaphore("x");
    assert!(elsewhere.delete().await.unwrap());
    let start = Instant::now();
    for ended in waits.await.unwrap() {
        assert_fails(ended, ErrorKind::NotSet);
    }
    assert!(start.elapsed() < 50 * MS, "{:?}", start.elapsed());
}
