//! Losing a hold: told in time, whatever happens.

use redlatch_behaviours::lock::waiting;

use crate::prelude::*;

// L12
#[tokio::test(start_paused = true)]
async fn loss_is_reported_before_the_lease_ends_on_the_server() {
    for lease in [1_000, 3_000, 30_000] {
        let (backend, [client]) = embedded().await;
        let server = backend.embedded_server();
        let guard = client.lock("x").lock().renewed_lease(lease * MS);
        let guard = guard.await.unwrap();
        backend.pass(lease * MS * 2).await;
        guard.check().unwrap();
        server.stop();
        guard.lost().await;
        let until: u64 = backend.hash("redlatch:{x}")["u"].parse().unwrap();
        let now = server.now().millis();
        assert!(now < until, "told {} ms after the lease ended", now - until);
        let early = until - now;
        let most = u64::from(lease) * 3 / 100 + 20;
        assert!(early < most, "told {early} ms too early");
    }
}

/// A connection that swallows one reply is given up after a sixth of the lease and a second for the
/// PING, whatever the lease.
// L13
#[tokio::test(start_paused = true)]
async fn unanswered_renewal_is_no_loss() {
    for lease in [2_000, 3_000] {
        let (backend, [client]) = embedded().await;
        let guard = client.lock("x").lock().renewed_lease(lease * MS);
        let guard = guard.await.unwrap();
        backend.embedded_server().drop_replies(1, LostReply::Hangs);
        let mut unknown = false;
        for _ in 0..2 * lease {
            unknown |= guard.state() == HoldState::Unknown;
            guard.check().unwrap();
            backend.pass(MS).await;
        }
        assert!(unknown, "the renewal without an answer shows: {lease}");
        assert_eq!(guard.state(), HoldState::Held, "{lease}");
    }
}

// L9
#[tokio::test(start_paused = true)]
async fn reply_after_the_lease_is_no_grant() {
    let (backend, [client]) = embedded().await;
    let lock = client.lock("x");
    lock.lock().await.unwrap().release().await.unwrap();
    let server = backend.embedded_server().clone();
    server.stop_for(80 * MS);
    let guard = lock.lock().lease(60 * MS).await.unwrap();
    guard.check().unwrap();
    assert_eq!(lock.hold_count(guard.owner()).await.unwrap(), 1);
    drop(guard);
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

// L4
#[tokio::test(start_paused = true)]
async fn deadline_bounds_calls_to_a_stopped_server() {
    let (backend, [client]) = embedded().await;
    backend.embedded_server().stop();
    let start = Instant::now();
    let ended = client.lock("x").try_lock_for(200 * MS).await;
    assert_fails(ended, ErrorKind::OutcomeUnknown);
    assert_eq!(start.elapsed(), 200 * MS);
    let start = Instant::now();
    let error = client.lock("x").lock().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let took = start.elapsed();
    assert!((10 * SECOND..12 * SECOND).contains(&took), "{took:?}");
    backend.embedded_server().resume();
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

// L3
#[tokio::test(start_paused = true)]
async fn lost_connection_while_waiting_is_an_error_and_not_none() {
    let (backend, [a, b]) = embedded().await;
    let _guard = a.lock("x").lock().await.unwrap();
    let waiter = tokio::spawn(b.lock("x").try_lock_for(30 * SECOND).into_future());
    backend.pass(100 * MS).await;
    backend.embedded_server().refuse_connections(true);
    backend.embedded_server().cut_connections();
    let error = waiter.await.unwrap().unwrap_err();
    assert!(error.is_transient(), "{error:?}");
}

// L7
#[tokio::test(start_paused = true)]
async fn lost_message_costs_one_recheck() {
    let (backend, [a, b]) = embedded().await;
    let guard = a.lock("x").lock().await.unwrap();
    let waiter = waiting(b.lock("x"));
    backend.pass(100 * MS).await;
    // Somebody takes the waiter out of the list, as if its wake had been sent and lost.
    backend.command(&["DEL", "redlatch:{x}:q"]);
    let start = Instant::now();
    guard.release().await.unwrap();
    drop(waiter.await.unwrap());
    assert!(start.elapsed() <= 2_400 * MS, "{:?}", start.elapsed());
}

// L44
#[tokio::test(start_paused = true)]
async fn scripts_are_loaded_again_on_every_path() {
    let (backend, [client]) = embedded().await;
    let server = backend.embedded_server();
    let lock = client.lock("x");
    server.flush_scripts();
    let guard = lock.lock().renewed_lease(SECOND).await.unwrap();
    server.flush_scripts();
    let inner = lock.lock().owner(guard.owner()).await.unwrap();
    server.flush_scripts();
    backend.pass(2 * SECOND).await;
    guard.check().unwrap();
    server.flush_scripts();
    lock.info().await.unwrap();
    server.flush_scripts();
    drop(inner);
    client.settled().await;
    server.flush_scripts();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
}
