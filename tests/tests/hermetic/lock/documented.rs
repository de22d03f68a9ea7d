//! What writing the documents has found: promises that the code has to keep.

use redlatch::HoldState;
use redlatch_behaviours::prelude::*;
use redlatch_embedded::{LostReply, calls};

#[tokio::test(start_paused = true)]
async fn re_entry_does_not_outlast_a_hold_whose_renewal_is_forbidden() {
    let (backend, [a, b]) = embedded().await;
    let outer = a.lock("x").lock().lease(5 * SECOND).await.unwrap();
    assert!(b.lock("x").force_release().after_lease().await.unwrap());
    let again = a.lock("x").lock().owner(outer.owner()).lease(60 * SECOND);
    let inner = again.await.unwrap();
    assert!(inner.remaining() < 5 * SECOND);
    backend.pass(6 * SECOND).await;
    assert!(matches!(inner.state(), HoldState::Lost(_)));
    assert!(b.lock("x").try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_after_max_hold_is_renewed_again() {
    let (backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let outer = lock.lock().max_hold(SECOND).await.unwrap();
    backend.pass(12 * SECOND).await;
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    backend.pass(40 * SECOND).await;
    assert_eq!(inner.state(), HoldState::Held);
}

#[tokio::test(start_paused = true)]
async fn repeated_answer_of_a_grant_still_reports_the_dead_holder() {
    let (backend, [a, b]) = embedded().await;
    let dead = a.lock("x").lock().lease(SECOND).await.unwrap();
    backend.pass(2 * SECOND).await;
    let server = backend.embedded_server();
    server.drop_reply(calls::named("EVALSHA"), LostReply::Cuts);
    let next = b.lock("x").lock().await.unwrap();
    assert!(next.is_after_abandonment());
    next.release().await.unwrap();
    drop(dead);
}
