//! Losing a hold: told in time, whatever happens.

use redlatch::{ErrorKind, HoldState, LossCause, Released};

use crate::prelude::*;

behaviours! {
    Everywhere:
        renewed_hold_outlives_its_lease,
        renewal_notices_a_deleted_key_and_does_not_create_it;
    Cluster:
        a_fixed_lease_ends_and_says_so_before_the_key_does;
    Single:
        value_of_another_type_in_its_place_is_told_at_the_next_renewal,
        run_ends_with_the_hold,
        ending_comes_before_the_loss_of_a_hold_that_nothing_renews,
        ending_of_a_renewed_hold_waits_for_trouble,
        ending_comes_when_the_client_closes;
}

async fn a_fixed_lease_ends_and_says_so_before_the_key_does(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.lock("x");
    let guard = lock.lock().lease(300 * MS).await.unwrap();
    assert_eq!(guard.lost().await, LossCause::Expired);
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Expired));
    assert_eq!(guard.remaining(), Duration::ZERO);
    // What is lost stays lost.
    let extended = guard.extend(SECOND).await;
    assert_fails(extended, ErrorKind::Lost(LossCause::Expired));
}

async fn renewed_hold_outlives_its_lease(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.lock("x");
    let guard = lock.lock().renewed_lease(SECOND).await.unwrap();
    backend.pass(2_500 * MS).await;
    guard.check().unwrap();
    assert!(lock.is_held_by(guard.owner()).await.unwrap());
    assert_eq!(client.tables().renewals, 1);
    guard.release().await.unwrap();
    assert_tables_empty(&client).await;
}

// L14
async fn renewal_notices_a_deleted_key_and_does_not_create_it(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().renewed_lease(SECOND).await.unwrap();
    backend.command(&["DEL", "redlatch:{x}"]);
    assert_eq!(guard.lost().await, LossCause::Forgotten);
    assert_eq!(backend.keys(), [""; 0]);
    assert_eq!(client.tables().renewals, 0);
}

async fn value_of_another_type_in_its_place_is_told_at_the_next_renewal(backend: &Backend) {
    let client = backend.client().await;
    let lease = 30 * SECOND;
    let guard = client.lock("x").lock().renewed_lease(lease).await.unwrap();
    backend.command(&["SET", "redlatch:{x}", "mine"]);
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossCause::Forgotten);
    assert!(start.elapsed() < lease / 2);
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    assert_eq!(backend.string("redlatch:{x}").unwrap(), "mine");
}

async fn run_ends_with_the_hold(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().lease(200 * MS).await.unwrap();
    assert_eq!(guard.run(async { 7 }).await.unwrap(), 7);
    let lost = ErrorKind::Lost(LossCause::Expired);
    assert_fails(guard.run(std::future::pending::<()>()).await, lost);
    let work = async { panic!("a lost hold runs nothing") };
    assert_fails::<()>(guard.run(work).await, lost);
}

async fn ending_comes_before_the_loss_of_a_hold_that_nothing_renews(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().lease(3 * SECOND).await.unwrap();
    guard.ending(SECOND).await;
    guard.check().unwrap();
    assert!(guard.remaining() <= SECOND);
    guard.extend(6 * SECOND).await.unwrap();
    guard.ending(SECOND).await;
    guard.check().unwrap();
    assert!(guard.remaining() <= SECOND, "the extension counts");
    guard.ending(10 * SECOND).await;
    guard.lost().await;
    guard.ending(Duration::ZERO).await;
}

async fn ending_of_a_renewed_hold_waits_for_trouble(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.lock("x");
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    let ending = guard.ending(SECOND);
    let waited = tokio::time::timeout(6 * SECOND, ending).await;
    waited.expect_err("renewals move the deadline");
    let ending = guard.ending(SECOND);
    backend.command(&["DEL", "redlatch:{x}"]);
    ending.await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Forgotten));
    let ending = guard.ending(SECOND);
    drop(guard);
    let waited = tokio::time::timeout(SECOND, ending).await;
    waited.expect_err("nothing ends any more");
}

async fn ending_comes_when_the_client_closes(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    let ending = guard.ending(SECOND);
    let closing = tokio::spawn(async move { client.close(20 * SECOND).await });
    ending.await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Closed));
    drop(guard);
    closing.await.unwrap();
}
