//! The calls of one client for one limiter, which share requests and wait for each other.

use redlatch::limit::{Admission, RateLimiter};
use redlatch_tests::slow::far_client;

use super::HOUR;
use crate::prelude::*;

/// Returns a limiter whose server is 20 ms away and back.
async fn far() -> RateLimiter {
    let client = far_client(&Backend::embedded(), 10 * MS).await;
    client.rate_limiter("x")
}

// L1
#[tokio::test(start_paused = true)]
async fn a_wait_that_shares_a_request_ends_in_time() {
    let limiter = far().await.rate(1, HOUR);
    limiter.acquire(1).await.unwrap();
    let start = Instant::now();
    let first = limiter.acquire_for(1, 2 * HOUR);
    let second = async {
        let second = limiter.acquire_for(1, 10 * MS).await.unwrap();
        (second.pass().is_some(), start.elapsed())
    };
    let (first, (passed, took)) = tokio::join!(first, second);
    assert!(first.unwrap().pass().is_some() && start.elapsed() >= HOUR - SECOND);
    assert!(!passed && took <= 50 * MS, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_passes_although_others_ask_all_the_time() {
    let limiter = far().await.rate(1_000_000, SECOND);
    let over = Arc::new(AtomicBool::new(false));
    let others = spawned(3, |other| {
        let (limiter, over) = (limiter.clone(), Arc::clone(&over));
        async move {
            sleep(7 * MS * other as u32).await;
            while !over.load(Ordering::Relaxed) {
                drop(limiter.try_acquire(1).await.unwrap());
            }
        }
    });
    sleep(SECOND).await;
    for _ in 0..10 {
        let waiter = timeout(70 * MS, limiter.acquire(1));
        waiter.await.expect("its turn comes").unwrap();
    }
    over.store(true, Ordering::Relaxed);
    finished(others).await;
}

/// Each waiter takes its pass ahead, and only the last one of all clients can be given back.
#[tokio::test(start_paused = true)]
async fn turns_of_waiters_that_give_up_are_taken_by_others() {
    let (backend, passed, start) = (Backend::embedded(), AtomicUsize::new(0), Instant::now());
    let mut limiters = Vec::new();
    for _ in 0..4 {
        let client = far_client(&backend, MS).await;
        limiters.push(client.rate_limiter("x").rate(10, SECOND).burst(1));
    }
    let give_up = async |limiter: &RateLimiter, patience: Duration| {
        while start.elapsed() < 6 * SECOND {
            let waiter = timeout(patience, limiter.acquire(1)).await;
            passed.fetch_add(usize::from(waiter.is_ok()), Ordering::Relaxed);
        }
    };
    let callers = limiters
        .iter()
        .flat_map(|limiter| [50, 90, 130, 170].map(|patience| give_up(limiter, patience * MS)));
    join_all(callers).await;
    let passed = passed.into_inner();
    assert!((50..=61).contains(&passed), "{passed} of 61");
    sleep(20 * MS).await;
    let left = limiters[0].peek().await.unwrap().reset_after();
    assert!(left <= 100 * MS, "{left:?} are owed, and no caller waits");
}

/// Refused calls of two rates in turn take nothing.
#[tokio::test(start_paused = true)]
async fn rates_that_alternate_add_nothing_to_what_is_owed() {
    let limiter = far().await;
    let slow = limiter.clone().rate(10, SECOND).burst(1);
    let fast = limiter.rate(1_000_000, SECOND).burst(1);
    for _ in 0..10 {
        drop(slow.reserve(1).await.unwrap());
    }
    let before = slow.peek().await.unwrap().retry_after(1).unwrap();
    for _ in 0..10 {
        assert!(fast.try_acquire(1).await.unwrap().pass().is_none());
        assert!(slow.try_acquire(1).await.unwrap().pass().is_none());
    }
    let after = slow.peek().await.unwrap().retry_after(1).unwrap();
    assert!(after <= before, "{after:?} after {before:?}");
    let owed = slow.info().await.unwrap().owed;
    assert!(owed <= 10, "{owed} of 10 tokens are owed");
}

/// The debt alone says that a large burst has room before.
#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_time_at_which_a_new_rate_begins() {
    let limiter = far().await;
    let slow = limiter.clone().rate(1, SECOND).burst(20);
    let fast = limiter.rate(20, SECOND).burst(2);
    slow.acquire(20).await.unwrap();
    let (_, ahead) = fast.reserve(1).await.unwrap();
    assert!(ahead > 800 * MS, "{ahead:?}");
    match slow.try_acquire(1).await.unwrap() {
        Admission::Refused(refused) => {
            assert!(refused.retry_after > 800 * MS, "{refused:?}");
            assert_eq!(refused.remaining, 0);
        }
        Admission::Pass(pass) => panic!("{pass:?}"),
    }
}

/// A waiter whose pass is taken ahead, and whose future is not polled.
#[tokio::test(start_paused = true)]
async fn an_unpolled_waiter_keeps_its_turn_until_its_pass_counts() {
    let (backend, [client]) = preloaded().await;
    let limiter = client.rate_limiter("x").rate(1, SECOND).burst(1);
    limiter.acquire(1).await.unwrap();
    let mut unpolled = Box::pin(limiter.acquire(1));
    assert!(futures_util::poll!(unpolled.as_mut()).is_pending());
    backend.pass(20 * MS).await;
    let next = timeout(3 * SECOND, limiter.acquire(1));
    next.await.expect("its turn comes").unwrap();
    unpolled.await.unwrap();
}

/// The caller reads the answer after its pass has counted, and after its own time.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_polled_late_does_not_wait_again() {
    let (backend, [client]) = preloaded().await;
    let limiter = client.rate_limiter("x").rate(1, 10 * SECOND).burst(1);
    for bounded in [false, true] {
        limiter.acquire(1).await.unwrap();
        let waiting = limiter.clone();
        let mut late = Box::pin(async move {
            match bounded {
                true => waiting.acquire_for(1, 11 * SECOND).await.unwrap().pass(),
                false => waiting.acquire(1).await.ok(),
            }
        });
        assert!(futures_util::poll!(late.as_mut()).is_pending());
        backend.pass(15 * SECOND).await;
        let start = Instant::now();
        assert!(late.await.is_some(), "its pass has counted for 5 s");
        assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    }
}

/// A pass that was taken ahead and given back, which a cancelled wait does.
#[tokio::test(start_paused = true)]
async fn a_pass_that_was_given_back_delays_nothing() {
    let limiter = far().await;
    let slow = limiter.key("a").rate(1, HOUR).burst(1);
    slow.acquire(1).await.unwrap();
    let (ahead, _) = slow.reserve(1).await.unwrap();
    ahead.settle(0).await.unwrap();
    let fast = limiter.key("a").rate(20, SECOND);
    assert!(fast.try_acquire(1).await.unwrap().pass().is_some());

    let limiter = limiter.key("b").rate(100, HOUR);
    let estimated = limiter.acquire(60).await.unwrap();
    limiter.acquire(40).await.unwrap();
    let (ahead, _) = limiter.reserve(40).await.unwrap();
    ahead.settle(0).await.unwrap();
    estimated.settle(10).await.unwrap();
    assert!(limiter.try_acquire(50).await.unwrap().pass().is_some());
}

/// A served waiter has its place until its task runs, and the next waiter comes into a new line.
#[tokio::test(start_paused = true)]
async fn a_served_waiter_takes_nobody_else_along() {
    let (backend, [client]) = preloaded().await;
    let limiter = client.rate_limiter("x").rate(1_000_000, SECOND);
    let mut first = Box::pin(limiter.acquire(1));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    // The answer comes, and its task does not run.
    backend.pass(20 * MS).await;
    let mut second = Box::pin(limiter.acquire(1));
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    first.await.unwrap();
    second.await.unwrap();
}
