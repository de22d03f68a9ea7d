//! Many requests, many waiters, clocks that differ: what one operation costs must not grow with the
//! others.

use redlatch_tests::skewed::SkewedRuntime;

use super::renewals::slow;
use crate::{prelude::*, spawning::runtime_of};

/// The findings name ten and twenty thousand; the engine in a test build gets what takes it a
/// second.
const SCALE: u32 = if cfg!(feature = "servers") { 10 } else { 1 };

#[tokio::test(start_paused = true)]
async fn hand_overs_do_not_delay_rechecks_of_a_later_waiter() {
    let (_backend, [a, b]) = embedded().await;
    let tasks = spawned(4, |i| {
        let lock = if i % 2 == 0 { &a } else { &b }.lock("x");
        async move {
            for _ in 0..250 * SCALE {
                lock.lock().await.unwrap().release().await.unwrap();
            }
        }
    });
    finished(tasks).await;
    let lease = 3 * SECOND;
    let dead = a.lock("y").lock().lease(lease).await.unwrap();
    std::mem::forget(dead);
    let start = Instant::now();
    let next = b.lock("y").lock().await.unwrap();
    assert!(next.is_after_abandonment());
    // A look comes 2 ms after the lease; 2.4 s later is what is promised. A client has 1,000 looks
    // a second to give.
    let late = start.elapsed() - lease;
    assert!(late <= 100 * MS, "{late:?} late");
}

// L18
#[tokio::test(start_paused = true)]
async fn requests_of_clients_with_fast_and_slow_clocks_are_accepted() {
    for speed in [0.9, 1.1] {
        let backend = Backend::embedded();
        let client = clocked(&backend, speed).await;
        let lock = client.lock("x");
        drop(lock.lock().await.unwrap());
        backend.pass(3600 * SECOND).await;
        let guard = lock.lock().renewed_lease(10 * SECOND).await.unwrap();
        backend.pass(60 * SECOND).await;
        guard.check().unwrap();
        assert_eq!(lock.hold_count(guard.owner()).await.unwrap(), 1);
        guard.release().await.unwrap();
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_after_the_servers_clock_was_set_is_accepted() {
    for step in [4, 5, 6, 60, 3600, 86_400] {
        let (backend, [client]) = embedded().await;
        let server = backend.embedded_server();
        let lock = client.lock("x");
        drop(lock.lock().await.unwrap());
        client.settled().await;
        server.advance(step * SECOND);
        let start = Instant::now();
        lock.lock().await.unwrap().release().await.unwrap();
        server.set_back(step * SECOND);
        lock.lock().await.unwrap().release().await.unwrap();
        server.advance(step * SECOND);
        let guard = lock.lock().await.unwrap();
        server.advance(10 * SECOND);
        guard.extend(60 * SECOND).await.unwrap();
        assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
        guard.release().await.unwrap();
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_ready_together_share_requests() {
    let (backend, [client]) = preloaded().await;
    let before = backend.script_calls();
    let tries = (0..64).map(|n| client.lock(format!("n{n}")).try_lock().into_future());
    let tried = join_all(tries).await.into_iter();
    let guards: Vec<_> = tried.map(|tried| tried.unwrap().unwrap()).collect();
    // Four are alone, and the others go in calls of sixteen.
    assert_eq!(backend.script_calls() - before, 8);
    drop(guards);
    assert_tables_empty(&client).await;
    // The releases of one write go in calls of sixteen.
    assert_eq!(backend.script_calls() - before, 8 + 4);
}

#[tokio::test(start_paused = true)]
async fn request_to_a_slow_server_is_not_repeated() {
    let requests = 2_000 * SCALE;
    let (backend, client, work) = slow(Backend::embedded()).await;
    // Four seconds of work at once, while one request alone would wait for a second.
    work.takes(4 * SECOND / requests);
    let before = backend.script_calls();
    let tries = (0..requests).map(|n| client.lock(format!("n{n}")).try_lock().into_future());
    let start = Instant::now();
    let tried = join_all(tries).await.into_iter();
    let guards: Vec<_> = tried.map(|tried| tried.unwrap().unwrap()).collect();
    assert!(start.elapsed() > 3 * SECOND, "{:?}", start.elapsed());
    let calls = backend.script_calls() - before;
    assert!(calls <= u64::from(requests) * 11 / 10, "{calls} calls");
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    let before = backend.script_calls();
    drop(guards);
    assert_tables_empty(&client).await;
    let calls = backend.script_calls() - before;
    assert!(calls <= u64::from(requests) * 11 / 10, "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn server_slower_than_the_patience_fails_calls_and_keeps_nothing() {
    let (backend, client, work) = slow(Backend::embedded()).await;
    work.takes(400 * MS);
    let tries = (0..100).map(|n| client.lock(format!("n{n}")).try_lock().into_future());
    let start = Instant::now();
    let tried = join_all(tries).await.into_iter();
    let (granted, failed): (Vec<_>, Vec<_>) = tried.partition(Result::is_ok);
    // Being told that a request came too late is an answer, which renews the client's patience
    // once. Each time the last request is given its second of silence, though patience ends before
    // that.
    assert!(start.elapsed() <= 22 * SECOND, "{:?}", start.elapsed());
    assert!(!granted.is_empty() && !failed.is_empty());
    for result in failed {
        assert_fails(result, ErrorKind::OutcomeUnknown);
    }
    drop(granted);
    assert_nothing_left(&backend, &[&client]).await;
}

/// Calls that are ready together wait for each other for a moment. Who is alone does not.
#[tokio::test(start_paused = true)]
async fn call_that_is_alone_is_sent_when_it_is_first_polled() {
    let (_backend, client, work) = slow(Backend::embedded()).await;
    work.takes(10 * MS);
    for round in 0..20 {
        let lock = client.lock(format!("x{round}"));
        client.settled().await;
        work.most_in_line();
        let mut call = std::pin::pin!(lock.try_lock().into_future());
        assert!(futures_util::poll!(&mut call).is_pending());
        assert_eq!(work.most_in_line(), 1, "round {round}");
        let guard = call.await.unwrap().unwrap();
        let mut release = std::pin::pin!(guard.release());
        assert!(futures_util::poll!(&mut release).is_pending());
        assert_eq!(work.most_in_line(), 1, "round {round}");
        release.await.unwrap();
    }
}

/// Connects a client whose clock runs at `speed`.
async fn clocked(backend: &Backend, speed: f64) -> Client {
    let skewed = SkewedRuntime::over(runtime_of(backend), 1_000 * SECOND, speed);
    let builder = backend.builder().runtime(Arc::new(skewed)).clock_drift(0.2);
    builder.connect().await.unwrap()
}
