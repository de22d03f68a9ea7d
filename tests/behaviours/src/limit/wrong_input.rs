//! Wrong input gets a typed error, and nothing is half done.

use redlatch::{ErrorKind, limit::RateLimiter};

use crate::prelude::*;

behaviours! {
    Single:
        wrong_input_is_a_typed_error_and_sends_nothing,
        too_many_waiters_are_refused;
}

async fn wrong_input_is_a_typed_error_and_sends_nothing(backend: &Backend) {
    let client = backend.client().await;
    let before = backend.script_calls();
    let some = client.rate_limiter("x").rate(5, SECOND);
    for (limiter, cost, kind) in [
        (client.rate_limiter("x"), 1, ErrorKind::InvalidOption),
        (
            client.rate_limiter("").rate(5, SECOND),
            1,
            ErrorKind::InvalidName,
        ),
        (some.key("y".repeat(600)), 1, ErrorKind::InvalidName),
        (some.clone().rate(0, SECOND), 1, ErrorKind::InvalidOption),
        (
            some.clone().rate(5, Duration::ZERO),
            1,
            ErrorKind::InvalidOption,
        ),
        (some.clone().burst(0), 1, ErrorKind::InvalidOption),
        (some.clone().burst(u64::MAX), 1, ErrorKind::InvalidOption),
        (some.clone(), 0, ErrorKind::InvalidOption),
        (some.clone(), 6, ErrorKind::OutOfRange),
    ] {
        assert_eq!(errors(&limiter, cost).await, [kind; 5], "{limiter:?}");
    }
    assert_eq!(backend.script_calls(), before);
    assert_tables_empty(&client).await;
}

/// What each call fails with.
async fn errors(limiter: &RateLimiter, cost: u64) -> [ErrorKind; 5] {
    [
        limiter.try_acquire(cost).await.unwrap_err().kind(),
        limiter
            .try_acquire_each(["y"], cost)
            .await
            .unwrap_err()
            .kind(),
        limiter.acquire(cost).await.unwrap_err().kind(),
        limiter.acquire_for(cost, SECOND).await.unwrap_err().kind(),
        limiter.reserve(cost).await.unwrap_err().kind(),
    ]
}

async fn too_many_waiters_are_refused(backend: &Backend) {
    let client = backend.builder().max_waiters(1).connect().await.unwrap();
    let hour = Duration::from_secs(3600);
    let limiter = client.rate_limiter("x").rate(1, hour);
    limiter.acquire(1).await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await.map(drop) }
    });
    wait_for("a waiter", async || client.tables().waiters == 1).await;
    assert_fails(limiter.acquire(1).await, ErrorKind::TooManyWaiters);
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    assert_tables_empty(&client).await;
}
