//! A latch and a server that loses replies, stops, restarts and forgets.

use redlatch_behaviours::latch::{listening, waiting};
use redlatch_lua::LATCH;

use super::{refuse_look, set_latch};
use crate::prelude::*;

/// The answer is lost, the latch opens, and is set and shut again before the copy arrives.
// L37
#[tokio::test(start_paused = true)]
async fn a_party_whose_count_down_had_to_be_sent_again_waits_for_its_own_generation() {
    for deleted in [false, true] {
        let (backend, [a, b]) = preloaded().await;
        let (here, there) = (a.count_down_latch("x"), b.count_down_latch("x"));
        there.try_set_count(2).await.unwrap();
        lose_reply(&backend, LATCH.count_down.text, LostReply::Hangs);
        let party = tokio::spawn(async move { here.count_down_and_wait(1).await });
        backend.pass(20 * MS).await;
        if deleted {
            there.delete().await.unwrap();
        } else {
            assert_eq!(there.count_down(1).await.unwrap(), 0);
        }
        assert!(there.try_set_count(2).await.unwrap());
        let result = party.await.unwrap();
        match deleted {
            true => assert_fails(result, ErrorKind::Deleted),
            false => result.unwrap(),
        }
        let left = there.count().await.unwrap();
        assert_eq!(left, 2, "counted in its own, and once");
        assert_tables_empty(&a).await;
    }
}

// L40, L49
#[tokio::test(start_paused = true)]
async fn record_of_operations_expires() {
    let (backend, _client, latch) = set_latch(10_000).await;
    let size = || backend.members("redlatch:{x}:o");
    for _ in 0..40 {
        for _ in 0..20 {
            latch.count_down(1).await.unwrap();
        }
        backend.pass(SECOND).await;
        assert!(size() <= 20 * 31, "{}", size());
    }
    // What is young enough is kept.
    assert!(size() >= 20 * 29, "{}", size());
    backend.pass(31 * SECOND).await;
    assert_eq!(backend.keys(), ["redlatch:{x}"]);
    assert_eq!(latch.count().await.unwrap(), 10_000 - 800);
}

// L3, L4
#[tokio::test(start_paused = true)]
async fn silent_server_bounds_every_call() {
    let (backend, client, latch) = set_latch(3).await;
    let server = backend.embedded_server();
    server.stop();
    let start = Instant::now();
    let error = latch.count_down(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(!error.is_not_executed());
    assert!(start.elapsed() <= 11 * SECOND, "{:?}", start.elapsed());
    let start = Instant::now();
    let error = latch.wait_for(200 * MS).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(start.elapsed(), 200 * MS);
    let start = Instant::now();
    let error = latch.wait().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    // The client's patience, and a pause and a request that began within it.
    assert!(start.elapsed() <= 12 * SECOND, "{:?}", start.elapsed());
    server.resume();
    backend.pass(6 * SECOND).await;
    let left = latch.count().await.unwrap();
    assert!(left == 3 || left == 2, "once or not at all: {left}");
    assert_tables_empty(&client).await;
}

// L3, L4
#[tokio::test(start_paused = true)]
async fn waiters_behind_another_learn_of_a_silent_server() {
    let (backend, client, latch) = set_latch(3).await;
    let server = backend.embedded_server();
    server.stop();
    let start = Instant::now();
    let waiters = spawned(20, |i| {
        let latch = latch.clone();
        async move {
            let wait = if i % 2 == 0 { 300 * MS } else { 60 * SECOND };
            (wait, latch.wait_for(wait).await)
        }
    });
    for waiter in waiters {
        let (wait, result) = waiter.await.unwrap();
        let error = result.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        assert!(!error.to_string().contains("For("), "{error}");
        let took = start.elapsed();
        assert!(took <= wait.max(12 * SECOND), "{took:?}");
    }
    server.resume();
    assert_tables_empty(&client).await;
}

// L45
#[tokio::test(start_paused = true)]
async fn requests_refused_for_a_while_are_repeated() {
    let (backend, [client]) = preloaded().await;
    let latch = client.count_down_latch("x");
    for error in [
        "LOADING not ready",
        "BUSY a script runs",
        "READONLY a replica",
    ] {
        refuse_next(&backend, LATCH.set.text, error);
        assert!(latch.try_set_count(1).await.unwrap(), "{error}");
        refuse_next(&backend, LATCH.look.text, error);
        assert!(!latch.wait_for(SECOND).await.unwrap(), "{error}");
        refuse_next(&backend, LATCH.count_down.text, error);
        assert_eq!(latch.count_down(1).await.unwrap(), 0, "{error}");
    }
    let refusal = "NOPERM this user has no permissions to run the 'evalsha' command";
    refuse_look(&backend, refusal);
    assert_fails(latch.wait().await, ErrorKind::Permission);
}

/// A clock that is set back moves neither generations nor what is remembered the wrong way.
#[tokio::test(start_paused = true)]
async fn generations_rise_although_the_clock_is_set_back() {
    let (backend, client, latch) = set_latch(1).await;
    let server = backend.embedded_server();
    let waiter = waiting(latch.clone());
    listening(&client, 1).await;
    server.set_back(60 * SECOND);
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
    let first = latch.info().await.unwrap().unwrap().generation;
    assert!(latch.try_set_count(1).await.unwrap());
    let second = latch.info().await.unwrap().unwrap().generation;
    assert!(second > first);
    waiter.await.unwrap().unwrap();
    let party = tokio::spawn({
        let latch = latch.clone();
        lose_reply(&backend, LATCH.count_down.text, LostReply::Hangs);
        async move { latch.count_down_and_wait(1).await }
    });
    backend.pass(10 * MS).await;
    assert!(latch.try_set_count(1).await.unwrap(), "it is open");
    party.await.unwrap().unwrap();
}
