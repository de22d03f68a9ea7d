//! What a latch does when nothing fails.

use redlatch::CountDownLatch;

use super::{counting_and_waiting, listening, passed, shut, waiting};
use crate::prelude::*;

behaviours! {
    Cluster:
        latch_opens_at_zero,
        deletion_ends_waits_with_a_typed_error;
    Single:
        wait_on_an_open_latch_returns_at_once,
        open_latch_can_be_set_again,
        waiter_passes_although_the_latch_was_set_again,
        parties_count_down_and_wait_round_after_round,
        count_down_below_zero_stops_at_zero,
        largest_count_is_exact,
        unset_latch_is_a_typed_error,
        waiter_of_a_deleted_generation_does_not_wait_for_the_next,
        deletion_of_an_open_latch_lets_its_waiters_pass,
        expired_latch_ends_waits_with_a_typed_error,
        only_setting_a_latch_changes_its_ttl,
        info_describes_a_latch,
        clients_share_latches_and_prefixes_separate_them;
}

async fn latch_opens_at_zero(backend: &Backend, [a, b]: [Client; 2]) {
    let (here, there) = (shut(&a, 3).await, b.count_down_latch("x"));
    let waiters = [&a, &b].map(|client| waiting(client.count_down_latch("x")));
    listening(&a, 1).await;
    listening(&b, 1).await;
    assert_eq!(there.count_down(1).await.unwrap(), 2);
    assert_eq!(here.count_down(1).await.unwrap(), 1);
    backend.pass(100 * MS).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    assert_eq!(there.count_down(1).await.unwrap(), 0);
    passed(waiters).await;
    assert_eq!(here.count().await.unwrap(), 0);
}

async fn wait_on_an_open_latch_returns_at_once(backend: &Backend, client: Client) {
    let latch = shut(&client, 1).await;
    latch.count_down(1).await.unwrap();
    backend.preload();
    let before = backend.script_calls();
    latch.wait().await.unwrap();
    assert!(latch.wait_for(SECOND).await.unwrap());
    assert!(latch.wait_for(Duration::ZERO).await.unwrap());
    assert_eq!(backend.script_calls() - before, 3);
}

async fn open_latch_can_be_set_again(latch: CountDownLatch) {
    let mut generations = Vec::new();
    for count in [1, 3, 0, 2] {
        assert!(latch.try_set_count(count).await.unwrap());
        generations.push(latch.info().await.unwrap().unwrap().generation);
        for left in (0..count).rev() {
            assert!(!latch.try_set_count(7).await.unwrap(), "it is not open");
            assert!(!latch.wait_for(Duration::ZERO).await.unwrap());
            assert_eq!(latch.count_down(1).await.unwrap(), left);
        }
        latch.wait().await.unwrap();
        assert!(latch.info().await.unwrap().unwrap().is_open());
    }
    assert!(generations.is_sorted_by(|a, b| a < b), "{generations:?}");
}

async fn waiter_passes_although_the_latch_was_set_again(backend: &Backend, [a, b]: [Client; 2]) {
    let (latch, again) = (shut(&a, 1).await, b.count_down_latch("x"));
    let waiter = waiting(again.clone());
    listening(&b, 1).await;
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
    assert!(latch.try_set_count(1).await.unwrap());
    waiter.await.unwrap().unwrap();
    backend.assert_not_granted(again.wait_for(300 * MS).await);
}

async fn parties_count_down_and_wait_round_after_round(clients: [Client; 4]) {
    let party = async |client: &Client| {
        for round in 0..5 {
            let latch = client.count_down_latch(format!("round-{round}"));
            latch.try_set_count(8).await.unwrap();
            let pair = || async { latch.count_down_and_wait(1).await.unwrap() };
            futures_util::future::join(pair(), pair()).await;
            assert_eq!(latch.count().await.unwrap(), 0);
        }
    };
    join_all(clients.iter().map(party)).await;
}

async fn count_down_below_zero_stops_at_zero(client: Client) {
    let latch = shut(&client, 3).await;
    assert_eq!(latch.count_down(0).await.unwrap(), 3, "0 only looks");
    assert_eq!(latch.count_down(2).await.unwrap(), 1);
    assert_eq!(latch.count_down(u32::MAX).await.unwrap(), 0);
    assert_eq!(latch.count_down(1).await.unwrap(), 0, "it is open");
    latch.count_down_and_wait(1).await.unwrap();
    latch.count_down_and_wait(0).await.unwrap();
    assert!(latch.try_set_count(2).await.unwrap());
    assert_eq!(latch.count().await.unwrap(), 2, "nothing is carried over");
}

async fn largest_count_is_exact(latch: CountDownLatch) {
    latch.try_set_count(u32::MAX).await.unwrap();
    assert_eq!(latch.count().await.unwrap(), u32::MAX);
    assert_eq!(latch.count_down(1).await.unwrap(), u32::MAX - 1);
    assert_eq!(latch.count_down(u32::MAX - 2).await.unwrap(), 1);
    assert!(!latch.wait_for(Duration::ZERO).await.unwrap());
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
}

// L35
async fn unset_latch_is_a_typed_error(latch: CountDownLatch) {
    for error in [
        latch.wait().await.unwrap_err(),
        latch.wait_for(SECOND).await.unwrap_err(),
        latch.count().await.unwrap_err(),
        latch.count_down(1).await.unwrap_err(),
        latch.count_down(0).await.unwrap_err(),
        latch.count_down_and_wait(1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotSet, "{error:?}");
        assert!(error.is_not_executed() && !error.is_transient());
        assert!(error.to_string().contains("latch \"x\": nobody has set it"));
    }
    assert_eq!(latch.info().await.unwrap(), None);
    assert!(!latch.delete().await.unwrap());
    latch.try_set_count(1).await.unwrap();
    assert_eq!(latch.count().await.unwrap(), 1);
}

// L37
async fn deletion_ends_waits_with_a_typed_error(backend: &Backend, [a, b]: [Client; 2]) {
    let latch = shut(&a, 2).await;
    let waiters = [&a, &a, &b].map(|client| waiting(client.count_down_latch("x")));
    let party = counting_and_waiting(b.count_down_latch("x"));
    listening(&a, 2).await;
    listening(&b, 2).await;
    backend.preload();
    let before = backend.script_calls();
    assert!(latch.delete().await.unwrap());
    for ended in finished(waiters.into_iter().chain([party])).await {
        assert_fails(ended, ErrorKind::Deleted);
    }
    // A re-check may have been due in that very moment.
    let calls = backend.script_calls() - before;
    assert!((3..=5).contains(&calls), "one look per client: {calls}");
    // There is none any more.
    assert_fails(latch.wait().await, ErrorKind::NotSet);
    assert!(!latch.delete().await.unwrap());
}

// L37
async fn waiter_of_a_deleted_generation_does_not_wait_for_the_next([a, b]: [Client; 2]) {
    for _ in 0..12 {
        let latch = shut(&a, 1).await;
        let waiter = waiting(b.count_down_latch("x"));
        listening(&b, 1).await;
        assert!(latch.delete().await.unwrap());
        assert!(latch.try_set_count(1).await.unwrap());
        assert_fails(waiter.await.unwrap(), ErrorKind::Deleted);
        assert_eq!(latch.count_down(1).await.unwrap(), 0);
    }
}

async fn deletion_of_an_open_latch_lets_its_waiters_pass(backend: &Backend, client: Client) {
    let latch = shut(&client, 1).await;
    let waiter = waiting(latch.clone());
    listening(&client, 1).await;
    latch.count_down(1).await.unwrap();
    assert!(latch.delete().await.unwrap());
    waiter.await.unwrap().unwrap();
    assert_eq!(latch.info().await.unwrap(), None);
    // What is remembered of it has an end.
    for key in backend.keys() {
        assert!(backend.ends(&key), "{key}");
    }
}

// L36
async fn expired_latch_ends_waits_with_a_typed_error(backend: &Backend, client: Client) {
    let latch = client.count_down_latch("x");
    latch.try_set_count(2).ttl(SECOND).await.unwrap();
    let waiter = waiting(client.count_down_latch("x"));
    listening(&client, 1).await;
    let left = latch.info().await.unwrap().unwrap().remaining.unwrap();
    assert!(left <= SECOND && left > Duration::ZERO, "{left:?}");
    let before = Instant::now();
    assert_fails(waiter.await.unwrap(), ErrorKind::Deleted);
    // It looked when it should end, and not by the re-check.
    let took = before.elapsed();
    assert!(took < 1_500 * MS, "{took:?}");
    assert_fails(latch.wait().await, ErrorKind::NotSet);
    assert!(latch.try_set_count(1).await.unwrap());
    assert_eq!(backend.ttl("redlatch:{x}"), None, "without a TTL it stays");
}

// L36
async fn only_setting_a_latch_changes_its_ttl(backend: &Backend, latch: CountDownLatch) {
    let key = "redlatch:{x}";
    latch.try_set_count(2).ttl(60 * SECOND).await.unwrap();
    let first = backend.ttl(key).unwrap();
    assert!(first > 50 * SECOND);
    assert!(!latch.try_set_count(5).ttl(2 * SECOND).await.unwrap());
    latch.count_down(1).await.unwrap();
    latch.info().await.unwrap();
    latch.count_down(1).await.unwrap();
    let last = backend.ttl(key).unwrap();
    assert!(last <= first && last > 50 * SECOND, "{last:?}");
    assert!(latch.try_set_count(1).await.unwrap());
    assert_eq!(backend.ttl(key), None, "set anew without one");
    assert_eq!(latch.info().await.unwrap().unwrap().remaining, None);
    latch.count_down(1).await.unwrap();
    assert_eq!(backend.ttl(key), None);
    assert!(latch.try_set_count(1).ttl(90 * SECOND).await.unwrap());
    assert!(backend.ttl(key).unwrap() > 80 * SECOND);
    assert!(latch.delete().await.unwrap());
    assert!(latch.try_set_count(1).await.unwrap());
    // The trace of the deleted one had an end.
    assert_eq!(backend.ttl(key), None);
}

async fn info_describes_a_latch(backend: &Backend, client: Client) {
    let latch = client.count_down_latch("x").class("starts");
    assert_eq!(latch.name(), Some("x"));
    assert!(format!("{latch:?}").contains("\"x\""));
    latch.try_set_count(5).await.unwrap();
    latch.count_down(2).await.unwrap();
    backend.pass(30 * MS).await;
    let info = latch.info().await.unwrap().unwrap();
    assert_eq!((info.name.as_str(), info.count, info.initial), ("x", 3, 5));
    assert!(!info.is_open() && info.remaining.is_none());
    assert!((29 * MS..20 * SECOND).contains(&info.age), "{info:?}");
}

async fn clients_share_latches_and_prefixes_separate_them(backend: &Backend, client: Client) {
    let other = backend.builder().prefix("other").connect().await.unwrap();
    client.count_down_latch("x").try_set_count(1).await.unwrap();
    assert_eq!(other.count_down_latch("x").info().await.unwrap(), None);
    for name in ["{t}x", "a{b", "}{", "🔒"] {
        let latch = client.count_down_latch(name);
        latch.try_set_count(1).await.unwrap();
        let waiter = waiting(latch.clone());
        listening(&client, 1).await;
        latch.count_down(1).await.unwrap();
        waiter.await.unwrap().unwrap();
    }
}
