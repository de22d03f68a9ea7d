//! Losing a hold: told in time, whatever happens.

use std::time::Duration;

use redlatch::{ErrorKind, HoldState, LossCause};
use redlatch_embedded::LostReply;
use redlatch_tests::backend::{Backend, assert_tables_empty};
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

// L12
#[tokio::test(start_paused = true)]
async fn stopped_server_is_reported_as_loss_before_any_key_expires() {
    let backend = Backend::embedded();
    let server = backend.embedded_server();
    let client = backend.client().await;
    let mut guards = Vec::new();
    for (i, lease) in [1_000, 2_000, 5_000].into_iter().enumerate() {
        guards.push(
            client
                .lock(format!("n{i}"))
                .lock()
                .renewed_lease(lease * MS)
                .await
                .unwrap(),
        );
    }
    server.stop();
    for guard in &guards {
        let cause = guard.lost().await;
        assert!([LossCause::Unreachable, LossCause::Expired].contains(&cause));
    }
    for (i, guard) in guards.iter().enumerate() {
        // The server's own clock has not reached the end of any lease: it would still show each
        // hold.
        let _ = guard;
        let key = format!("redlatch:{{n{i}}}");
        assert!(server.ttl(&key).is_some(), "{key}");
    }
    server.resume();
    drop(guards);
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

// L12
#[tokio::test(start_paused = true)]
async fn loss_is_reported_before_the_lease_ends_on_the_server() {
    for lease in [1_000, 3_000, 30_000] {
        let backend = Backend::embedded();
        let server = backend.embedded_server();
        let client = backend.client().await;
        let guard = client
            .lock("x")
            .lock()
            .renewed_lease(lease * MS)
            .await
            .unwrap();
        backend.pass(lease * MS * 2).await;
        guard.check().unwrap();
        server.stop();
        guard.lost().await;
        let until: u64 = backend.hash("redlatch:{x}")["u"].parse().unwrap();
        let now = server.now().millis();
        assert!(now < until, "told {} ms after the lease ended", now - until);
        assert!(
            until - now < u64::from(lease) * 3 / 100 + 20,
            "told {} ms too early",
            until - now
        );
    }
}

// L13
#[tokio::test(start_paused = true)]
async fn unanswered_renewal_is_no_loss() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let guard = client
        .lock("x")
        .lock()
        .renewed_lease(3 * SECOND)
        .await
        .unwrap();
    backend.embedded_server().drop_replies(1, LostReply::Hangs);
    let mut unknown = false;
    for _ in 0..3_000 {
        unknown |= guard.state() == HoldState::Unknown;
        guard.check().unwrap();
        backend.pass(MS).await;
    }
    assert!(unknown, "the renewal without an answer shows");
    assert_eq!(guard.state(), HoldState::Held);
}

// L1
#[tokio::test(start_paused = true)]
async fn an_acquire_whose_reply_is_lost_counts_once() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        let client = backend.client().await;
        let lock = client.lock("x");
        // The script is loaded, so that the next EVALSHA is the one that runs.
        lock.lock().await.unwrap().release().await.unwrap();
        backend.embedded_server().drop_replies(1, how);
        let guard = lock.lock().await.unwrap();
        assert_eq!(lock.hold_count(guard.owner()).await.unwrap(), 1);
        backend.embedded_server().drop_replies(1, how);
        assert_eq!(guard.release().await.unwrap(), redlatch::Released::Free);
        assert!(!lock.is_locked().await.unwrap());
        assert_tables_empty(&client).await;
    }
}

// L9
#[tokio::test(start_paused = true)]
async fn reply_after_the_lease_is_no_grant() {
    let backend = Backend::embedded();
    let client = backend.client().await;
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
    let backend = Backend::embedded();
    let client = backend.client().await;
    backend.embedded_server().stop();
    let start = Instant::now();
    let error = client.lock("x").try_lock_for(200 * MS).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(start.elapsed(), 200 * MS);
    let start = Instant::now();
    let error = client.lock("x").lock().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(
        start.elapsed() >= 10 * SECOND && start.elapsed() < 12 * SECOND,
        "{:?}",
        start.elapsed()
    );
    backend.embedded_server().resume();
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

// L3
#[tokio::test(start_paused = true)]
async fn lost_connection_while_waiting_is_an_error_and_not_none() {
    let backend = Backend::embedded();
    let (a, b) = (backend.client().await, backend.client().await);
    let _guard = a.lock("x").lock().await.unwrap();
    let lock = b.lock("x");
    let waiter = tokio::spawn(async move { lock.try_lock_for(30 * SECOND).await });
    backend.pass(100 * MS).await;
    backend.embedded_server().refuse_connections(true);
    backend.embedded_server().cut_connections();
    let error = waiter.await.unwrap().unwrap_err();
    assert!(
        error.is_transient(),
        "failure is an error and not None: {error:?}"
    );
}

// L7
#[tokio::test(start_paused = true)]
async fn lost_message_costs_one_recheck() {
    let backend = Backend::embedded();
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().await.unwrap();
    let lock = b.lock("x");
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
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
    let backend = Backend::embedded();
    let server = backend.embedded_server();
    let client = backend.client().await;
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
    assert_eq!(guard.release().await.unwrap(), redlatch::Released::Free);
}
