//! Every future of the limiter may be dropped at every await: poll it k times, drop it, look what
//! is left (L2).

use redlatch::limit::RateLimiter;

use super::{HOUR, hourly, remaining};
use crate::prelude::*;

type Call = fn(RateLimiter) -> Task;

/// Calls with the tokens that they leave of 9.
const CALLS: [(&str, u64, Call); 4] = [
    ("try", 7, |limiter| {
        task(async move { limiter.try_acquire(2).await.unwrap() })
    }),
    ("tries of several keys", 9, |limiter| {
        task(async move {
            let answers = limiter.try_acquire_each(["a", "b", "c"], 2).await.unwrap();
            assert!(answers.into_iter().all(|answer| answer.pass().is_some()));
        })
    }),
    ("acquisition", 6, |limiter| {
        task(async move { limiter.acquire(3).await.unwrap() })
    }),
    ("reservation", 0, |limiter| {
        task(async move { limiter.reserve(9).await.unwrap() })
    }),
];

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_calls_take_nothing() {
    for (what, left, call) in CALLS {
        after_each_poll(async |polls| {
            let (backend, client, limiter) = hourly(9).await;
            let called = call(limiter.clone());
            let done = polled(&backend, called, polls).await.is_some();
            backend.pass(20 * MS).await;
            assert_tables_empty(&client).await;
            let expected = if done { left } else { 9 };
            let remaining = remaining(&limiter).await;
            assert_eq!(remaining, expected, "{what} after {polls} polls");
            done
        })
        .await;
    }
}

/// A wait that has its pass already, which counts later.
#[tokio::test(start_paused = true)]
async fn cancelled_wait_gives_its_pass_back_and_the_next_one_asks() {
    for polls in 1..40 {
        let (backend, client, limiter) = hourly(1).await;
        limiter.acquire(1).await.unwrap();
        let waiting = limiter.clone();
        let mut first = task(async move { waiting.acquire(1).await.unwrap() });
        assert!(polled(&backend, &mut first, polls).await.is_none());
        let behind = limiter.clone();
        let behind = tokio::spawn(async move { behind.acquire(1).await.unwrap() });
        backend.pass(5 * MS).await;
        drop(first);
        let start = Instant::now();
        behind.await.unwrap();
        // Its own hour, and not that of the first one.
        assert!(start.elapsed() <= HOUR, "{polls}: {:?}", start.elapsed());
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_behind_others_leaves_no_trace() {
    let (backend, client, limiter) = hourly(1).await;
    limiter.acquire(1).await.unwrap();
    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await.map(drop) }
    });
    backend.pass(5 * MS).await;
    let before = backend.script_calls();
    for _ in 0..100 {
        let waiter = timeout(20 * MS, limiter.acquire(1)).await;
        assert!(waiter.is_err(), "another waits before it");
    }
    assert_eq!(backend.script_calls(), before, "it does not ask");
    assert_eq!(client.tables().waiters, 1);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_settlement_settles_once_or_not_at_all() {
    after_each_poll(async |polls| {
        let (backend, client, limiter) = hourly(9).await;
        let pass = limiter.acquire(6).await.unwrap();
        let settlement = task(async move { pass.settle(2).await.unwrap() });
        let done = polled(&backend, settlement, polls).await.is_some();
        backend.pass(20 * MS).await;
        assert_tables_empty(&client).await;
        let left = remaining(&limiter).await;
        assert!(left == 7 || left == 3 && !done, "{left} are left");
        done
    })
    .await;
}
