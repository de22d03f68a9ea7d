//! Holds that follow each other under one name: the end of an old hold changes no later one, and
//! its caller gets the right answer.

use redlatch_lua::REENTRANT;

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn release_of_an_expired_hold_does_not_requeue_waiters_of_the_newer_one() {
    let (backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let old = lock.lock().lease(50 * MS).await.unwrap();
    let owner = old.owner().clone();
    backend.pass(100 * MS).await;
    assert!(old.check().is_err());
    let newer = lock.lock().owner(&owner).await.unwrap();
    let stranger = tokio::spawn(lock.lock().into_future());
    backend.pass(10 * MS).await;
    // The waiter is reentrant, and the server refuses its first request for now. The waiter has to
    // ask again.
    let loading = "LOADING the server is not ready";
    refuse_next(&backend, REENTRANT.acquire.text, loading);
    let waiter = tokio::spawn(lock.lock().owner(&owner).into_future());
    tokio::task::yield_now().await;
    drop(old);
    let waiter = timeout(SECOND, waiter).await;
    let waiter = waiter.expect("not behind a stranger").unwrap().unwrap();
    assert_eq!(newer.hold_count(), 2);
    assert!(!stranger.is_finished());
    newer.release().await.unwrap();
    waiter.release().await.unwrap();
    drop(stranger.await.unwrap().unwrap());
    assert_tables_empty(&client).await;
}
