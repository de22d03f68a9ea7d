//! What a rate limiter does when no call waits, and wrong input.

use redlatch::{
    ErrorKind::{InvalidName, InvalidOption, OutOfRange},
    limit::{Admission, RateLimiter},
};

use super::{HOUR, drain, limiter, refused};
use crate::prelude::*;

behaviours! {
    Cluster:
        burst_passes_and_the_rest_is_refused_until_it_is_paid,
        keys_of_a_family_share_nothing,
        keys_are_answered_one_by_one;
    Single:
        clients_share_a_limiter_and_prefixes_separate_them,
        call_of_a_higher_cost_waits_longer,
        slower_rate_forgives_no_debt,
        faster_rate_takes_effect_at_once,
        what_was_estimated_too_high_is_given_back,
        what_was_estimated_too_low_is_a_debt,
        paid_tokens_are_not_given_back,
        nothing_is_given_back_before_a_later_pass_counts,
        reserved_passes_count_one_after_another,
        concurrent_calls_for_one_name_share_requests,
        limiter_costs_one_command_a_call_and_no_memory_afterwards,
        wrong_input_is_a_typed_error_and_sends_nothing;
}

async fn burst_passes_and_the_rest_is_refused_until_it_is_paid(backend: &Backend) {
    let limiter = limiter(backend, 1, SECOND, 3).await;
    assert_eq!(limiter.peek().await.unwrap().remaining(), 3);
    let Admission::Pass(pass) = limiter.try_acquire(1).await.unwrap() else {
        panic!("the first call passes");
    };
    assert_eq!((pass.cost(), pass.remaining()), (1, 2));
    assert!(pass.reset_after() <= SECOND);
    let (passes, refused) = drain(&limiter, 1).await;
    assert_eq!((passes, refused.remaining), (2, 0));
    assert!(!refused.retry_after.is_zero() && refused.retry_after <= SECOND);
    assert!(refused.reset_after > SECOND && refused.reset_after <= 3 * SECOND);
    backend.pass(refused.retry_after + MS).await;
    assert!(limiter.try_acquire(1).await.unwrap().pass().is_some());
    backend.pass(4 * SECOND).await;
    assert_eq!(limiter.peek().await.unwrap().remaining(), 3);
    assert_eq!(drain(&limiter, 1).await.0, 3);
}

async fn keys_of_a_family_share_nothing(backend: &Backend) {
    let family = limiter(backend, 1, HOUR, 2).await;
    for id in 0..20 {
        assert_eq!(drain(&family.key(id), 1).await.0, 2);
    }
    assert_eq!(drain(&family, 1).await.0, 2);
}

async fn keys_are_answered_one_by_one(backend: &Backend) {
    let family = limiter(backend, 1, HOUR, 1).await;
    assert!(family.key(7).try_acquire(1).await.unwrap().pass().is_some());
    let ids = (0..40).chain([3]);
    let answers = family.try_acquire_each(ids, 1).await.unwrap();
    assert_eq!(answers.len(), 41);
    for (at, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.pass().is_some(), ![7, 40].contains(&at), "{at}");
    }
}

async fn clients_share_a_limiter_and_prefixes_separate_them(backend: &Backend) {
    let one = limiter(backend, 1, HOUR, 2).await;
    let two = limiter(backend, 1, HOUR, 2).await;
    assert!(one.try_acquire(1).await.unwrap().pass().is_some());
    assert_eq!(drain(&two, 1).await.0, 1);
    let apart = backend.builder().prefix("apart").connect().await.unwrap();
    let apart = apart.rate_limiter("x").rate(1, HOUR).burst(2);
    assert_eq!(drain(&apart, 1).await.0, 2);
}

async fn call_of_a_higher_cost_waits_longer(backend: &Backend) {
    let limiter = limiter(backend, 10, HOUR, 10).await;
    assert!(limiter.try_acquire(8).await.unwrap().pass().is_some());
    let refused = refused(limiter.try_acquire(4).await);
    assert_eq!(refused.remaining, 2);
    assert!(refused.retry_after > HOUR / 10 && refused.retry_after <= HOUR / 5);
    let level = limiter.peek().await.unwrap();
    assert!(level.retry_after(4).unwrap() <= refused.retry_after);
    assert_eq!(level.retry_after(2), Some(Duration::ZERO));
    assert_eq!(level.retry_after(11), None);
    assert!(limiter.try_acquire(2).await.unwrap().pass().is_some());
}

async fn slower_rate_forgives_no_debt(backend: &Backend) {
    let fast = limiter(backend, 20, SECOND, 20).await;
    assert!(fast.try_acquire(20).await.unwrap().pass().is_some());
    // The debt of 20 tokens would be paid in 1 s. Now it takes 20 hours.
    let slow = fast.clone().rate(1, HOUR);
    let (passes, refused) = drain(&slow, 1).await;
    // A token may have been paid meanwhile.
    assert!(passes <= 5, "{passes}");
    assert!(refused.reset_after > 14 * HOUR);
}

async fn faster_rate_takes_effect_at_once(backend: &Backend) {
    let slow = limiter(backend, 1, HOUR, 20).await;
    assert!(slow.try_acquire(20).await.unwrap().pass().is_some());
    let fast = slow.clone().rate(20, SECOND);
    let refused = refused(fast.try_acquire(20).await);
    assert!(refused.reset_after > SECOND / 2 && refused.reset_after <= SECOND);
    backend.pass(SECOND).await;
    assert!(fast.try_acquire(20).await.unwrap().pass().is_some());
}

async fn what_was_estimated_too_high_is_given_back(backend: &Backend) {
    let limiter = limiter(backend, 100, HOUR, 100).await;
    let first = limiter.acquire(60).await.unwrap();
    let second = limiter.acquire(40).await.unwrap();
    assert_eq!(limiter.peek().await.unwrap().remaining(), 0);
    first.settle(10).await.unwrap();
    // What has been paid meanwhile stays.
    assert!((49..=50).contains(&limiter.peek().await.unwrap().remaining()));
    second.settle(0).await.unwrap();
    assert!((89..=90).contains(&limiter.peek().await.unwrap().remaining()));
}

async fn what_was_estimated_too_low_is_a_debt(backend: &Backend) {
    let limiter = limiter(backend, 10, SECOND, 10).await;
    limiter.acquire(1).await.unwrap().settle(40).await.unwrap();
    let refused = refused(limiter.try_acquire(1).await);
    assert!(refused.retry_after > 2 * SECOND && refused.retry_after <= 4 * SECOND);
}

async fn paid_tokens_are_not_given_back(backend: &Backend) {
    let limiter = limiter(backend, 10, SECOND, 10).await;
    let pass = limiter.acquire(10).await.unwrap();
    backend.pass(2 * SECOND).await;
    // Another pass uses the time in which the first was paid.
    assert!(limiter.try_acquire(10).await.unwrap().pass().is_some());
    pass.settle(0).await.unwrap();
    let refused = refused(limiter.try_acquire(10).await);
    assert!(refused.retry_after > SECOND / 2);
}

async fn nothing_is_given_back_before_a_later_pass_counts(backend: &Backend) {
    let limiter = limiter(backend, 1, HOUR, 1).await;
    let (first, wait) = limiter.reserve(1).await.unwrap();
    assert_eq!(wait, Duration::ZERO);
    let (second, wait) = limiter.reserve(1).await.unwrap();
    assert!(wait > HOUR - SECOND * 60 && wait <= HOUR);
    // Otherwise two passes would count an hour from now.
    first.settle(0).await.unwrap();
    let owed = limiter.peek().await.unwrap().reset_after();
    assert!(owed > HOUR + 59 * (HOUR / 60));
    // The last one can be given back, and the first one is paid by then.
    second.settle(0).await.unwrap();
    let owed = limiter.peek().await.unwrap().reset_after();
    assert!(owed > HOUR - HOUR / 60 && owed <= HOUR, "{owed:?}");
}

async fn reserved_passes_count_one_after_another(backend: &Backend) {
    let limiter = limiter(backend, 3, 7 * SECOND, 2).await;
    let mut times = Vec::new();
    for _ in 0..8 {
        let (pass, _) = limiter.reserve(1).await.unwrap();
        times.push(pass.counts_at());
    }
    assert!(times.is_sorted());
    let span = times[7].duration_since(times[2]).unwrap();
    // 5 of 3 in 7 s, and no time is rounded twice.
    let exact = 7 * SECOND * 5 / 3;
    assert!(span.abs_diff(exact) <= Duration::from_micros(2), "{span:?}");
}

async fn concurrent_calls_for_one_name_share_requests(backend: &Backend) {
    let limiter = limiter(backend, 1, HOUR, 50).await;
    backend.preload();
    assert!(limiter.try_acquire(1).await.unwrap().pass().is_some());
    let before = backend.script_calls();
    let calls = (0..64).map(|_| limiter.try_acquire(1));
    let answers = try_join_all(calls).await.unwrap().into_iter();
    assert_eq!(answers.filter_map(Admission::pass).count(), 49);
    let calls = backend.script_calls() - before;
    // On several threads, requests leave while calls still come.
    let most = if backend.is_embedded() { 2 } else { 63 };
    assert!(calls <= most, "{calls} requests");
}

async fn limiter_costs_one_command_a_call_and_no_memory_afterwards(backend: &Backend) {
    let limiter = limiter(backend, 10, SECOND, 10).await;
    backend.preload();
    let before = backend.script_calls();
    limiter.acquire(3).await.unwrap().settle(5).await.unwrap();
    assert!(limiter.try_acquire(1).await.unwrap().pass().is_some());
    assert!(limiter.peek().await.unwrap().remaining() >= 4);
    assert_eq!(backend.script_calls() - before, 4);
    // The server remembers attempts for 30 s, and the debt is paid earlier.
    for key in backend.keys() {
        assert!(backend.ttl(&key).is_some_and(|ttl| ttl <= 31 * SECOND));
    }
}

async fn wrong_input_is_a_typed_error_and_sends_nothing(backend: &Backend, client: Client) {
    let before = backend.script_calls();
    let unnamed = client.rate_limiter("").rate(5, SECOND);
    let some = client.rate_limiter("x").rate(5, SECOND);
    for (limiter, cost, kind) in [
        (client.rate_limiter("x"), 1, InvalidOption),
        (unnamed, 1, InvalidName),
        (some.key("y".repeat(600)), 1, InvalidName),
        (some.clone().rate(0, SECOND), 1, InvalidOption),
        (some.clone().rate(5, Duration::ZERO), 1, InvalidOption),
        (some.clone().burst(0), 1, InvalidOption),
        (some.clone().burst(u64::MAX), 1, InvalidOption),
        (some.clone(), 0, InvalidOption),
        (some.clone(), 6, OutOfRange),
    ] {
        assert_eq!(errors(&limiter, cost).await, [kind; 5], "{limiter:?}");
    }
    assert_eq!(backend.script_calls(), before);
}

/// What each call fails with.
async fn errors(limiter: &RateLimiter, cost: u64) -> [ErrorKind; 5] {
    let each = limiter.try_acquire_each(["y"], cost).await;
    [
        limiter.try_acquire(cost).await.unwrap_err().kind(),
        each.unwrap_err().kind(),
        limiter.acquire(cost).await.unwrap_err().kind(),
        limiter.acquire_for(cost, SECOND).await.unwrap_err().kind(),
        limiter.reserve(cost).await.unwrap_err().kind(),
    ]
}
