//! Calls that wait for a rate limiter.

use redlatch::limit::{Pass, RateLimiter};

use super::{HOUR, drain, limiter, refused};
use crate::prelude::*;

behaviours! {
    Cluster:
        waiters_pass_at_the_rate_and_in_order;
    Single:
        waiter_costs_one_command,
        waiters_of_several_clients_take_turns,
        wait_that_is_too_short_ends_at_once,
        waiter_behind_others_asks_once_at_its_end,
        dropped_waiters_take_nothing,
        smaller_cost_does_not_overtake_a_waiter;
}

/// Starts to wait in a task of its own.
fn waiting(limiter: &RateLimiter, cost: u64) -> JoinHandle<Pass> {
    let limiter = limiter.clone();
    tokio::spawn(async move { limiter.acquire(cost).await.unwrap() })
}

/// Returns when the passes count, the earliest first.
async fn times(waiters: Vec<JoinHandle<Pass>>) -> Vec<SystemTime> {
    let passes = finished(waiters).await;
    let mut times: Vec<_> = passes.iter().map(Pass::counts_at).collect();
    times.sort();
    times
}

async fn waiters_pass_at_the_rate_and_in_order(backend: &Backend) {
    let limiter = limiter(backend, 10, SECOND, 2).await;
    // In one task, so that they come in this order.
    let passes = join_all((0..8).map(|_| limiter.acquire(1))).await;
    let times = passes.into_iter().map(|pass| pass.unwrap().counts_at());
    let times: Vec<_> = times.collect();
    assert!(times.is_sorted(), "{times:?}");
    for (at, time) in times.iter().enumerate().skip(2) {
        let window = time.duration_since(times[at - 2]).unwrap();
        // Three passes are one more than the burst.
        assert!(window >= 100 * MS, "{window:?}");
    }
    assert_tables_empty(&backend.client().await).await;
}

async fn waiter_costs_one_command(backend: &Backend) {
    let limiter = limiter(backend, 1, SECOND, 1).await;
    backend.preload();
    limiter.acquire(1).await.unwrap();
    let before = backend.script_calls();
    let start = Instant::now();
    limiter.acquire(1).await.unwrap();
    backend.assert_took(900 * MS, start);
    assert_eq!(backend.script_calls() - before, 1);
}

async fn waiters_of_several_clients_take_turns(backend: &Backend) {
    let limiters = join_all((0..3).map(|_| limiter(backend, 20, SECOND, 1))).await;
    // All of them come within the second that is taken ahead.
    for _ in 0..20 {
        limiters[0].reserve(1).await.unwrap();
    }
    let crowds = limiters.iter().map(|limiter| {
        let waiters = (0..5).map(|_| waiting(limiter, 1)).collect();
        times(waiters)
    });
    let all: Vec<_> = join_all(crowds).await;
    let last = |at: usize| all.iter().map(|times| times[at]).max().unwrap();
    // None of them is two rounds ahead of another.
    for times in &all {
        assert!(times[2] >= last(0) && times[4] >= last(2), "{all:?}");
    }
}

async fn wait_that_is_too_short_ends_at_once(backend: &Backend) {
    let limiter = limiter(backend, 1, HOUR, 1).await;
    drain(&limiter, 1).await;
    let start = Instant::now();
    let refused = refused(limiter.acquire_for(1, 60 * SECOND).await);
    assert!(start.elapsed() < 30 * SECOND);
    assert!(refused.retry_after > 50 * (HOUR / 60));
    let faster = limiter.clone().rate(10, SECOND);
    let waited = faster.acquire_for(1, 30 * SECOND).await;
    assert!(waited.unwrap().pass().is_some());
}

async fn waiter_behind_others_asks_once_at_its_end(backend: &Backend) {
    let limiter = limiter(backend, 1, HOUR, 1).await;
    backend.preload();
    drain(&limiter, 1).await;
    let first = waiting(&limiter, 1);
    let one_waits = async || limiter.peek().await.unwrap().reset_after() > HOUR;
    wait_for("the first waiter to ask", one_waits).await;
    let start = Instant::now();
    let refused = refused(limiter.acquire_for(1, 200 * MS).await);
    backend.assert_took(200 * MS, start);
    assert!(refused.retry_after > HOUR);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
}

async fn dropped_waiters_take_nothing(backend: &Backend) {
    let limiter = limiter(backend, 1, HOUR, 1).await;
    drain(&limiter, 1).await;
    let waiters: Vec<_> = (0..5).map(|_| waiting(&limiter, 1)).collect();
    let one_waits = async || limiter.peek().await.unwrap().reset_after() > HOUR;
    wait_for("the first waiter to ask", one_waits).await;
    for waiter in waiters.into_iter().rev() {
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
    }
    let given_back = async || limiter.peek().await.unwrap().reset_after() <= HOUR;
    wait_for("the pass to be given back", given_back).await;
}

async fn smaller_cost_does_not_overtake_a_waiter(backend: &Backend) {
    let limiter = limiter(backend, 10, SECOND, 10).await;
    assert!(limiter.try_acquire(5).await.unwrap().pass().is_some());
    let big = waiting(&limiter, 10);
    let it_waits = async || limiter.peek().await.unwrap().reset_after() > SECOND;
    wait_for("the waiter to ask", it_waits).await;
    assert!(limiter.try_acquire(1).await.unwrap().pass().is_none());
    big.await.unwrap();
}
