//! Holds that follow each other under one name: the end of an old hold changes no later one, and
//! its caller gets the right answer.

use redlatch::{Released, runtime::ServerError};
use redlatch_behaviours::prelude::*;
use redlatch_embedded::calls;
use redlatch_lua::REENTRANT;
use tokio::time::timeout;

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
    let loading = ServerError::parse("LOADING the server is not ready");
    let server = backend.embedded_server();
    server.fail_next(calls::of_script(REENTRANT.acquire.text), loading);
    let waiter = tokio::spawn(lock.lock().owner(&owner).into_future());
    tokio::task::yield_now().await;
    drop(old);
    let waiter = timeout(SECOND, waiter)
        .await
        .expect("not behind a stranger");
    let waiter = waiter.unwrap().unwrap();
    assert_eq!(newer.hold_count(), 2);
    assert!(!stranger.is_finished());
    newer.release().await.unwrap();
    waiter.release().await.unwrap();
    drop(stranger.await.unwrap().unwrap());
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn forced_release_is_reported_although_another_held_since() {
    let (_backend, [a, b]) = embedded().await;
    let first = a.lock("x").lock().await.unwrap();
    assert!(b.lock("x").force_release().await.unwrap());
    let second = b.lock("x").lock().await.unwrap();
    assert!(second.is_after_abandonment(), "the first was cut short");
    assert_eq!(second.release().await.unwrap(), Released::Free);
    let answer = first.release().await.unwrap();
    assert!(!answer.is_clean());
    assert_eq!(answer, Released::Revoked);
    assert!(!b.lock("x").lock().await.unwrap().is_after_abandonment());
}

#[tokio::test(start_paused = true)]
async fn acknowledged_forced_release_is_no_abandonment() {
    let (_backend, [a, b]) = embedded().await;
    let first = a.lock("x").lock().await.unwrap();
    assert!(b.lock("x").force_release().await.unwrap());
    assert_eq!(first.release().await.unwrap(), Released::Revoked);
    assert!(!b.lock("x").lock().await.unwrap().is_after_abandonment());
}
