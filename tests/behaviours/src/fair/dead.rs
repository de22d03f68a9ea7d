//! Waiters that die, that nobody polls, that hear nothing, that lose their place.

use std::pin::Pin;

use redlatch::{Client, FairLockGuard};

use super::support::{Grants, clients, queued, queued_as};
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

type Waiting = Pin<Box<dyn Future<Output = Result<FairLockGuard, redlatch::Error>> + Send>>;

/// Begins to wait and is polled until the server has the ticket, and no more.
async fn half_way(backend: &Backend, client: &Client) -> Waiting {
    let (lock, owner) = (client.fair_lock("x"), client.owner());
    let mut waiting: Waiting = lock.lock().owner(&owner).into_future();
    while lock.position(&owner).await.unwrap().is_none() {
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        backend.pass(MS).await;
    }
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    waiting
}

/// Queues a waiter that is never polled again, as of a client that has died.
async fn dies(backend: &Backend) {
    let client = backend.client().await;
    std::mem::forget(half_way(backend, &client).await);
    std::mem::forget(client);
}

/// Where time is stepped, a wait took `most` at most.
fn assert_within(backend: &Backend, start: Instant, most: Duration) {
    if let Backend::Embedded { .. } = backend {
        assert!(start.elapsed() <= most, "it took {:?}", start.elapsed());
    }
}

// L22
async fn waiters_that_died_together_delay_the_next_by_one_deadline(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    for _ in 0..20 {
        dies(backend).await;
    }
    let living = queued(&clients[1].fair_lock("x")).await;
    for _ in 0..5 {
        dies(backend).await;
    }
    let last = queued(&clients[2].fair_lock("x")).await;
    let start = Instant::now();
    guard.release().await.unwrap();
    let next = living.await.unwrap();
    // Twenty in front are more than a waiter looks at; it finds out by its own next look.
    assert_within(backend, start, 7_500 * MS);
    next.release().await.unwrap();
    last.await.unwrap().release().await.unwrap();
    assert_within(backend, start, 8_000 * MS);
}

// L21, L22
async fn dead_client_with_forty_places_delays_the_queue_by_one_deadline(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let dies = backend.client().await;
    for _ in 0..40 {
        std::mem::forget(half_way(backend, &dies).await);
    }
    std::mem::forget(dies);
    let first = queued(&clients[1].fair_lock("x")).await;
    let second = queued(&clients[2].fair_lock("x")).await;
    let start = Instant::now();
    guard.release().await.unwrap();
    first.await.unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    assert_within(backend, start, 5_010 * MS);
    backend.assert_only_counters_left();
}

// L24
async fn waiter_that_dies_after_its_notification_is_skipped(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let head = half_way(backend, &clients[1]).await;
    let next = queued(&clients[2].fair_lock("x")).await;
    guard.release().await.unwrap();
    // The call is on its way to somebody who will not come.
    std::mem::forget(head);
    let start = Instant::now();
    next.await.unwrap().release().await.unwrap();
    assert_within(backend, start, 5_010 * MS);
}

async fn unpolled_first_waiter_loses_its_place_and_queues_again(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let grants = Grants::default();
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let stuck = half_way(backend, &clients[1]).await;
    let mut tasks = Vec::new();
    for who in 0..4 {
        let lock = clients[1 + who % 2].fair_lock("x");
        tasks.push(queued_as(who, &lock, &grants).await);
    }
    let start = Instant::now();
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), [0, 1, 2, 3]);
    // It had 5 s to come from when it was called, and the look that found that out was 2.4 s later
    // at most.
    assert_within(backend, start, 7_500 * MS);
    stuck.await.unwrap().release().await.unwrap();
    assert_tables_empty(&clients[1]).await;
    backend.assert_only_counters_left();
}

async fn unpolled_first_waiter_of_a_client_does_not_stall_the_others(backend: &Backend) {
    let clients = clients(backend, 2).await;
    let grants = Grants::default();
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let mut tasks = Vec::new();
    tasks.push(queued_as(0, &clients[0].fair_lock("x"), &grants).await);
    let stuck = half_way(backend, &clients[1]).await;
    for who in 1..4 {
        tasks.push(queued_as(who, &clients[1].fair_lock("x"), &grants).await);
    }
    // Its client is heard of all the same, or the others would count as dead.
    backend.pass(20_000 * MS).await;
    let info = clients[0].fair_lock("x").info().await.unwrap();
    assert_eq!(info.unwrap().waiters, 5);
    let start = Instant::now();
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), [0, 1, 2, 3]);
    assert_within(backend, start, 7_500 * MS);
    stuck.await.unwrap().release().await.unwrap();
}

async fn waiter_dropped_after_its_notification_lets_the_next_in(backend: &Backend) {
    let clients = clients(backend, 3).await;
    for _ in 0..5 {
        let guard = clients[0].fair_lock("x").lock().await.unwrap();
        let head = half_way(backend, &clients[1]).await;
        let next = queued(&clients[2].fair_lock("x")).await;
        guard.release().await.unwrap();
        let start = Instant::now();
        drop(head);
        next.await.unwrap().release().await.unwrap();
        assert_within(backend, start, 50 * MS);
    }
    backend.assert_only_counters_left();
}

// L25
async fn release_of_an_expired_hold_notifies_nobody(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let grants = Grants::default();
    let guard = clients[0].fair_lock("x").lock().lease(300 * MS);
    let guard = guard.await.unwrap();
    let first = queued(&clients[1].fair_lock("x")).await;
    let second = queued_as(1, &clients[2].fair_lock("x"), &grants).await;
    // The lease ends, the next holds, and then the release comes.
    let held = first.await.unwrap();
    drop(guard);
    clients[0].settled().await;
    assert_eq!(grants.list(), [] as [usize; 0]);
    held.check().unwrap();
    held.release().await.unwrap();
    second.await.unwrap();
}

/// The server forgets everything: who waits queues again, and nobody waits for a call that never
/// comes.
async fn waiters_queue_again_after_the_server_was_flushed(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let grants = Grants::default();
    let mut tasks = Vec::new();
    for who in 0..30 {
        let lock = clients[1 + who % 2].fair_lock("x");
        tasks.push(queued_as(who, &lock, &grants).await);
    }
    backend.command(&["FLUSHALL"]);
    let start = Instant::now();
    drop(guard);
    finished(tasks).await;
    let mut granted = grants.list();
    granted.sort_unstable();
    assert_eq!(granted, (0..30).collect::<Vec<_>>());
    assert_within(backend, start, 10_000 * MS);
    backend.assert_only_counters_left();
}

async fn closing_client_leaves_the_queue(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let mut closed = Vec::new();
    for _ in 0..20 {
        closed.push(half_way(backend, &clients[1]).await);
    }
    let waiting: Vec<_> = closed.into_iter().map(tokio::spawn).collect();
    let next = queued(&clients[2].fair_lock("x")).await;
    clients[1].close_now().await;
    for task in waiting {
        assert_fails(task.await.unwrap(), redlatch::ErrorKind::Closed);
    }
    let info = clients[2].fair_lock("x").info().await.unwrap();
    assert_eq!(info.unwrap().waiters, 1);
    let start = Instant::now();
    guard.release().await.unwrap();
    next.await.unwrap().release().await.unwrap();
    assert_within(backend, start, 50 * MS);
}

async fn waiter_that_is_not_subscribed_yet_misses_no_notification(backend: &Backend) {
    for round in 0..10_u32 {
        let holder = backend.client().await;
        let guard = holder.fair_lock("x").lock().await.unwrap();
        let client = backend.builder().self_check(false).connect().await.unwrap();
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let lock = client.fair_lock("x");
                tokio::spawn(async move { lock.lock().await.unwrap().release().await.unwrap() })
            })
            .collect();
        backend.pass(MS * round / 4).await;
        let start = Instant::now();
        guard.release().await.unwrap();
        finished(tasks).await;
        assert_within(backend, start, 2_500 * MS);
        wait_for("nothing to be left", async || {
            client.tables() == redlatch::Tables::default()
        })
        .await;
    }
}
