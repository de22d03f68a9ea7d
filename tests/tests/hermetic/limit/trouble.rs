//! A limiter and a server that stops, forgets, and has its clock set.

use redlatch::{
    limit::Admission,
    runtime::{Command, ServerError},
};
use redlatch_lua::LIMIT;

use super::{HOUR, hourly};
use crate::prelude::*;

// L3, L4
#[tokio::test(start_paused = true)]
async fn silent_server_bounds_every_call() {
    let (backend, client, limiter) = hourly(3).await;
    let server = backend.embedded_server();
    server.stop();
    let start = Instant::now();
    // Costs differ, so they go one after another.
    let calls = (1..=3).map(|cost| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            match cost {
                1 => limiter.acquire(1).await.map(drop),
                _ => limiter.try_acquire(cost).await.map(drop),
            }
        })
    });
    for outcome in finished(calls.collect::<Vec<_>>()).await {
        let error = outcome.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
    }
    // A call behind another one waits for twice the patience of 10 s.
    assert!(start.elapsed() <= 22 * SECOND, "{:?}", start.elapsed());
    server.resume();
    assert_tables_empty(&client).await;
    backend.pass(6 * SECOND).await;
    assert!(limiter.try_acquire(1).await.is_ok());
}

/// The server gets a request late, and counts its time from then on.
#[tokio::test(start_paused = true)]
async fn wait_that_an_outage_delays_ends_in_time() {
    let (backend, [client]) = preloaded().await;
    let limiter = client.rate_limiter("x").rate(1, 17 * SECOND).burst(2);
    limiter.acquire(2).await.unwrap();
    let server = backend.embedded_server();
    server.stop();
    let start = Instant::now();
    let waiting = limiter.clone();
    let waiter = tokio::spawn(async move { waiting.acquire_for(2, 30 * SECOND).await });
    backend.pass(9 * SECOND).await;
    server.resume();
    let admission = waiter.await.unwrap().unwrap();
    assert!(admission.pass().is_none() && start.elapsed() <= 31 * SECOND);
    backend.pass(SECOND).await;
    let owed = limiter.peek().await.unwrap().reset_after();
    assert!(owed <= 34 * SECOND, "it is given back");
}

/// Those who ask later do not wait behind those who wait.
#[tokio::test(start_paused = true)]
async fn try_is_answered_while_others_wait() {
    let (backend, _client, limiter) = hourly(1).await;
    limiter.acquire(1).await.unwrap();
    let waiting = limiter.clone();
    let waiter = tokio::spawn(async move { waiting.acquire(1).await.map(drop) });
    backend.pass(10 * MS).await;
    let start = Instant::now();
    let Admission::Refused(refused) = limiter.try_acquire(1).await.unwrap() else {
        panic!("another waits");
    };
    assert!(start.elapsed() < 10 * MS && refused.retry_after > HOUR);
    waiter.abort();
}

/// A list fails in a way that leaves open whether it has acted. Its calls then go one by one, and a
/// full server refuses them.
#[tokio::test(start_paused = true)]
async fn change_of_a_failed_list_stays_in_doubt() {
    let (backend, [client]) = preloaded().await;
    let limiters = (0..12).map(|n| client.rate_limiter(format!("n{n}")).rate(1, HOUR).burst(3));
    let limiters: Vec<_> = limiters.collect();
    let server = backend.embedded_server();
    let of_many = |command: &Command| command.args().nth(2).is_some_and(|keys| keys != b"1");
    let lost = ServerError::parse("ERR the proxy has lost the server");
    server.fail_next(of_many, lost);
    for _ in 0..12 {
        let full = "OOM command not allowed when used memory > 'maxmemory'.";
        refuse_next(&backend, LIMIT.acquire.text, full);
    }
    let passes = limiters.iter().map(|limiter| limiter.try_acquire(1));
    let errors = join_all(passes).await.into_iter().filter_map(Result::err);
    let doubted = errors.filter(|error| !error.is_not_executed()).count();
    assert!(doubted >= 2, "{doubted} are in doubt");
}

// L1
#[tokio::test(start_paused = true)]
async fn server_that_forgets_lets_one_more_burst_pass() {
    let (backend, _client, limiter) = hourly(5).await;
    for _ in 0..3 {
        assert!(limiter.try_acquire(5).await.unwrap().pass().is_some());
        assert!(limiter.try_acquire(1).await.unwrap().pass().is_none());
        backend.command(&["FLUSHALL"]);
    }
}

#[tokio::test(start_paused = true)]
async fn clock_that_is_set_back_starves_no_key() {
    let (backend, [client]) = preloaded().await;
    let limiter = client.rate_limiter("x").rate(1, SECOND).burst(2);
    limiter.acquire(2).await.unwrap();
    backend.embedded_server().set_back(24 * HOUR);
    assert!(limiter.try_acquire(1).await.unwrap().pass().is_none());
    let start = Instant::now();
    limiter.acquire(2).await.unwrap();
    assert!(start.elapsed() <= 3 * SECOND, "{:?}", start.elapsed());
}

// L40, L49
#[tokio::test(start_paused = true)]
async fn idle_limiter_uses_no_memory() {
    let (backend, client, limiter) = hourly(3).await;
    limiter.acquire(1).await.unwrap();
    let short = client.rate_limiter("y").rate(1, SECOND);
    for id in 0..100 {
        assert!(short.key(id).try_acquire(1).await.unwrap().pass().is_some());
    }
    assert_eq!(backend.keys().len(), 101);
    backend.pass(32 * SECOND).await;
    assert_eq!(backend.keys(), ["redlatch:{x}"], "its debt is not paid");
    backend.pass(HOUR).await;
    assert_eq!(backend.keys(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn other_kind_is_a_typed_error_and_other_keys_of_the_call_pass() {
    let (_backend, client, limiter) = hourly(3).await;
    let guard = client.lock("x:7").lock().await.unwrap();
    let ids = (0..20).map(|id| limiter.key(id)).collect::<Vec<_>>();
    let answers = ids.iter().map(|limiter| limiter.try_acquire(1));
    let answers = join_all(answers).await;
    for (id, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(answer) => assert!(answer.pass().is_some() && id != 7),
            Err(error) => assert!(error.kind() == ErrorKind::WrongKind && id == 7, "{error}"),
        }
    }
    guard.release().await.unwrap();
}
