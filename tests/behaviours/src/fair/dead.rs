//! Waiters that die, that nobody polls, that hear nothing, that lose their place.

use std::{mem::forget, pin::Pin};

use redlatch::{FairLock, FairLockGuard};

use super::support::{Fair, Grants, queued, queued_as};
use crate::prelude::*;

behaviours! {
    Cluster:
        dead_client_with_forty_places_delays_the_queue_by_one_deadline,
        waiter_dropped_after_its_notification_lets_the_next_in,
        waiters_queue_again_after_the_server_was_flushed;
    Single:
        waiters_that_died_together_delay_the_next_by_one_deadline,
        waiter_that_dies_after_its_notification_is_skipped,
        unpolled_first_waiter_loses_its_place_and_queues_again,
        unpolled_first_waiter_of_a_client_does_not_stall_the_others,
        release_of_an_expired_hold_notifies_nobody,
        closing_client_leaves_the_queue,
        waiter_that_is_not_subscribed_yet_misses_no_notification;
}

type Waiting = Pin<Box<dyn Future<Output = Result<FairLockGuard, Error>> + Send>>;

/// Begins to wait and is polled until the server has the ticket, and no more.
async fn half_way(lock: &FairLock) -> Waiting {
    let owner = lock.client().owner();
    let mut waiting: Waiting = lock.lock().owner(&owner).into_future();
    while lock.position(&owner).await.unwrap().is_none() {
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        sleep(MS).await;
    }
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    waiting
}

/// Queues a waiter that is never polled again, as of a client that has died.
async fn dies(backend: &Backend) {
    let lock = backend.client().await.fair_lock("x");
    forget((half_way(&lock).await, lock));
}

/// Where time is stepped, a wait took `most` at most.
fn assert_within(backend: &Backend, start: Instant, most: Duration) {
    let took = start.elapsed();
    assert!(took <= most || !backend.is_embedded(), "it took {took:?}");
}

// L22
async fn waiters_that_died_together_delay_the_next_by_one_deadline(fair: Fair<'_, 3>) {
    let guard = fair[0].lock().await.unwrap();
    for _ in 0..20 {
        dies(&fair).await;
    }
    let living = queued(&fair[1]).await;
    for _ in 0..5 {
        dies(&fair).await;
    }
    let last = queued(&fair[2]).await;
    let start = Instant::now();
    guard.release().await.unwrap();
    let next = living.await.unwrap();
    // Twenty in front are more than a waiter looks at; it finds out by its own next look.
    assert_within(&fair, start, 7_500 * MS);
    next.release().await.unwrap();
    last.await.unwrap().release().await.unwrap();
    assert_within(&fair, start, 8_000 * MS);
}

// L21, L22
async fn dead_client_with_forty_places_delays_the_queue_by_one_deadline(fair: Fair<'_, 3>) {
    let guard = fair[0].lock().await.unwrap();
    let dies = fair.client().await.fair_lock("x");
    for _ in 0..40 {
        forget(half_way(&dies).await);
    }
    forget(dies);
    let first = queued(&fair[1]).await;
    let second = queued(&fair[2]).await;
    let start = Instant::now();
    guard.release().await.unwrap();
    first.await.unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    assert_within(&fair, start, 5_010 * MS);
}

// L24
async fn waiter_that_dies_after_its_notification_is_skipped(fair: Fair<'_, 2>) {
    let guard = fair[0].lock().await.unwrap();
    let head = half_way(&fair.client().await.fair_lock("x")).await;
    let next = queued(&fair[1]).await;
    guard.release().await.unwrap();
    // The call is on its way to somebody who will not come.
    forget(head);
    let start = Instant::now();
    next.await.unwrap().release().await.unwrap();
    assert_within(&fair, start, 5_010 * MS);
}

async fn unpolled_first_waiter_loses_its_place_and_queues_again(fair: Fair<'_, 3>) {
    let grants = Grants::default();
    let guard = fair[0].lock().await.unwrap();
    let stuck = half_way(&fair[1]).await;
    let mut tasks = Vec::new();
    for who in 0..4 {
        tasks.push(queued_as(who, &fair[1 + who % 2], &grants).await);
    }
    let start = Instant::now();
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), [0, 1, 2, 3]);
    // It had 5 s to come from when it was called, and the look that found that out was 2.4 s later
    // at most.
    assert_within(&fair, start, 7_500 * MS);
    stuck.await.unwrap().release().await.unwrap();
}

async fn unpolled_first_waiter_of_a_client_does_not_stall_the_others(fair: Fair<'_, 2>) {
    let grants = Grants::default();
    let guard = fair[0].lock().await.unwrap();
    let mut tasks = vec![queued_as(0, &fair[0], &grants).await];
    let stuck = half_way(&fair[1]).await;
    for who in 1..4 {
        tasks.push(queued_as(who, &fair[1], &grants).await);
    }
    // Its client is heard of all the same, or the others would count as dead.
    fair.pass(20_000 * MS).await;
    let info = fair[0].info().await.unwrap();
    assert_eq!(info.unwrap().waiters, 5);
    let start = Instant::now();
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), [0, 1, 2, 3]);
    assert_within(&fair, start, 7_500 * MS);
    stuck.await.unwrap().release().await.unwrap();
}

async fn waiter_dropped_after_its_notification_lets_the_next_in(fair: Fair<'_, 3>) {
    for _ in 0..5 {
        let guard = fair[0].lock().await.unwrap();
        let head = half_way(&fair[1]).await;
        let next = queued(&fair[2]).await;
        guard.release().await.unwrap();
        let start = Instant::now();
        drop(head);
        next.await.unwrap().release().await.unwrap();
        assert_within(&fair, start, 50 * MS);
    }
}

// L25
async fn release_of_an_expired_hold_notifies_nobody(locks: [FairLock; 3]) {
    let grants = Grants::default();
    let guard = locks[0].lock().lease(300 * MS).await.unwrap();
    let first = queued(&locks[1]).await;
    let second = queued_as(1, &locks[2], &grants).await;
    // The lease ends, the next holds, and then the release comes.
    let held = first.await.unwrap();
    drop(guard);
    locks[0].client().settled().await;
    assert_eq!(grants.list(), [] as [usize; 0]);
    held.check().unwrap();
    held.release().await.unwrap();
    second.await.unwrap();
}

/// The server forgets everything: who waits queues again, and nobody waits for a call that never
/// comes.
async fn waiters_queue_again_after_the_server_was_flushed(fair: Fair<'_, 3>) {
    let guard = fair[0].lock().await.unwrap();
    let grants = Grants::default();
    let mut tasks = Vec::new();
    for who in 0..30 {
        tasks.push(queued_as(who, &fair[1 + who % 2], &grants).await);
    }
    fair.command(&["FLUSHALL"]);
    let start = Instant::now();
    drop(guard);
    finished(tasks).await;
    let mut granted = grants.list();
    granted.sort_unstable();
    assert_eq!(granted, (0..30).collect::<Vec<_>>());
    assert_within(&fair, start, 10_000 * MS);
}

async fn closing_client_leaves_the_queue(fair: Fair<'_, 3>) {
    let guard = fair[0].lock().await.unwrap();
    let mut closed = Vec::new();
    for _ in 0..20 {
        closed.push(half_way(&fair[1]).await);
    }
    let waiting = closed.into_iter().map(tokio::spawn).collect::<Vec<_>>();
    let next = queued(&fair[2]).await;
    fair[1].client().close_now().await;
    for ended in finished(waiting).await {
        assert_fails(ended, ErrorKind::Closed);
    }
    let info = fair[2].info().await.unwrap();
    assert_eq!(info.unwrap().waiters, 1);
    let start = Instant::now();
    guard.release().await.unwrap();
    next.await.unwrap().release().await.unwrap();
    assert_within(&fair, start, 50 * MS);
}

async fn waiter_that_is_not_subscribed_yet_misses_no_notification(backend: &Backend) {
    for round in 0..10_u32 {
        let holder = backend.client().await;
        let guard = holder.fair_lock("x").lock().await.unwrap();
        let client = backend.builder().self_check(false).connect().await.unwrap();
        let tasks = spawned(3, |_| {
            let lock = client.fair_lock("x");
            async move { lock.lock().await.unwrap().release().await.unwrap() }
        });
        backend.pass(MS * round / 4).await;
        let start = Instant::now();
        guard.release().await.unwrap();
        finished(tasks).await;
        assert_within(backend, start, 2_500 * MS);
        let nothing = async || client.tables() == redlatch::Tables::default();
        wait_for("nothing to be left", nothing).await;
    }
}
