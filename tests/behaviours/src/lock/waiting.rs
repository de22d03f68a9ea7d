//! Waiting for a lock that is held.

use super::{registered, waiting};
use crate::{fair::support::Grants, holds::*, prelude::*};

behaviours! {
    Everywhere:
        a_release_wakes_a_waiter_of_another_client;
    Cluster:
        a_waiter_takes_over_when_the_lease_ends,
        idle_waiter_sends_nothing_between_rechecks,
        commands_per_acquisition_stay_flat_as_waiters_grow,
        ten_thousand_names_are_waited_for_at_once;
    Single:
        a_bounded_wait_ends_at_its_time,
        tasks_of_one_client_are_served_in_order,
        deadline_of_one_waiter_does_not_end_another,
        polling_ends_after_its_attempts,
        unpolled_waiter_does_not_stall_others;
}

async fn a_release_wakes_a_waiter_of_another_client(backend: &Backend, [a, b]: [Client; 2]) {
    for _ in 0..20 {
        let guard = a.lock("x").lock().await.unwrap();
        let waiter = waiting(b.lock("x"));
        registered(&a, "x", 1).await;
        let start = Instant::now();
        drop(guard);
        waiter.await.unwrap().release().await.unwrap();
        // Woken by the release and not by its own next look.
        backend.assert_swift(start.elapsed(), SECOND);
    }
}

async fn a_waiter_takes_over_when_the_lease_ends(backend: &Backend, next: Client) {
    let dead = backend.client().await;
    let start = Instant::now();
    std::mem::forget(all(&dead, Fixed(200 * MS)).await);
    for (kind, guard) in all(&next, Fixed(60 * SECOND)).await {
        assert!(guard.is_after_abandonment() || kind != "lock");
    }
    backend.assert_took(190 * MS, start);
}

async fn a_bounded_wait_ends_at_its_time(backend: &Backend, [a, b]: [Client; 2]) {
    let _guard = a.lock("x").lock().await.unwrap();
    for wait in [0, 50, 300] {
        let wait = wait * MS;
        let start = Instant::now();
        assert_busy(backend, b.lock("x").try_lock_for(wait).await);
        backend.assert_took(wait, start);
    }
}

/// The re-check bound is 2 s ± 20 %, so in 1.2 s idle waiters say nothing, and then one looks for
/// all of its client.
// L8
async fn idle_waiter_sends_nothing_between_rechecks(backend: &Backend, [a, b]: [Client; 2]) {
    let guard = a.lock("x").lock().await.unwrap();
    let waiters = spawned(50, |_| {
        let waiting = waiting(b.lock("x"));
        async move { drop(waiting.await.unwrap()) }
    });
    registered(&a, "x", 1).await;
    let before = backend.script_calls();
    backend.pass(1_200 * MS).await;
    assert_eq!(backend.script_calls() - before, 0);
    backend.pass(1_300 * MS).await;
    let looks = backend.script_calls() - before;
    assert!((1..=2).contains(&looks), "{looks} looks of 50 waiters");
    drop(guard);
    finished(waiters).await;
}

// L8
async fn tasks_of_one_client_are_served_in_order(_: Emptied<'_>, lock: Lock) {
    let guard = lock.lock().await.unwrap();
    let (grants, mut tasks) = (Grants::default(), Vec::new());
    for i in 0..100 {
        let (lock, grants) = (lock.clone(), grants.clone());
        let (queued, is_queued) = tokio::sync::oneshot::channel();
        tasks.push(tokio::spawn(async move {
            let mut acquiring = Box::pin(lock.lock().into_future());
            assert!(futures_util::poll!(acquiring.as_mut()).is_pending());
            queued.send(()).unwrap();
            let guard = acquiring.await.unwrap();
            grants.note(i);
            guard.release().await.unwrap();
        }));
        is_queued.await.unwrap();
    }
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), (0..100).collect::<Vec<_>>());
}

// L8
async fn commands_per_acquisition_stay_flat_as_waiters_grow(backend: &Backend, client: Client) {
    for waiters in [1, 16, 128, 1_000] {
        let before = backend.script_calls();
        let tasks = spawned(waiters, |_| {
            let lock = client.lock("x");
            async move { lock.lock().await.unwrap().release().await.unwrap() }
        });
        finished(tasks).await;
        let each = (backend.script_calls() - before) as f64 / waiters as f64;
        println!("{waiters} local tasks: {each:.2} commands per acquisition");
        let most = if waiters < 1_000 { 4.0 } else { 3.0 };
        assert!(each <= most, "{each} commands with {waiters} waiters");
    }
}

// L5
async fn deadline_of_one_waiter_does_not_end_another(backend: &Backend, [a, b]: [Client; 2]) {
    let guard = a.lock("x").lock().await.unwrap();
    let impatient = b.lock("x").try_lock_for(100 * MS);
    let patient = spawned(100, |_| {
        let lock = b.lock("x");
        async move { lock.try_lock_for(20_000 * MS).await.unwrap().is_some() }
    });
    assert_busy(backend, impatient.await);
    guard.release().await.unwrap();
    assert_eq!(finished(patient).await, [true; 100]);
}

// L6
async fn ten_thousand_names_are_waited_for_at_once(backend: Emptied<'_>) {
    let (many, _turn) = backend.crowd().await;
    let a = backend.patient_client().await;
    let b = backend.patient_client().await;
    let names: Vec<_> = (0..many).map(|i| format!("n{i}")).collect();
    let holds = names.iter().map(|name| a.lock(name).lock().into_future());
    let guards = try_join_all(holds).await.unwrap();
    let waiters = spawned(many, |at| {
        let lock = b.lock(&names[at]);
        async move { drop(lock.lock().await.unwrap()) }
    });
    registered(&a, &names[many - 1], 1).await;
    drop(guards);
    finished(waiters).await;
    a.settled().await;
    assert_tables_empty(&b).await;
}

async fn polling_ends_after_its_attempts(backend: &Backend, [a, b]: [Client; 2]) {
    a.lock("x").lock().await.unwrap().release().await.unwrap();
    let guard = a.lock("x").lock().await.unwrap();
    let poll = WaitStrategy::Poll(Backoff::constant(5 * MS).max_attempts(3));
    let calls = backend.script_calls();
    let ended = b.lock("x").lock().strategy(poll).await;
    assert_fails(ended, ErrorKind::TooManyAttempts);
    b.settled().await;
    // Three requests, and an undo, so that the server refuses copies of them.
    assert_eq!(backend.script_calls() - calls, 4);
    let waiting = b.lock("x").try_lock_for(10_000 * MS).strategy(poll);
    assert!(waiting.await.unwrap().is_none());
    b.settled().await;
    assert_eq!(backend.script_calls() - calls, 8);
    guard.release().await.unwrap();
}

async fn unpolled_waiter_does_not_stall_others(backend: &Backend, [a, b]: [Client; 2]) {
    let guard = a.lock("x").lock().await.unwrap();
    let mut stuck = Box::pin(b.lock("x").lock().into_future());
    for _ in 0..20 {
        assert!(futures_util::poll!(stuck.as_mut()).is_pending());
        backend.pass(MS).await;
    }
    let waiter = waiting(b.lock("x"));
    drop(guard);
    // The first in line is never polled again, and the second takes its turn after two re-check
    // bounds.
    waiter.await.unwrap().release().await.unwrap();
    stuck.await.unwrap().release().await.unwrap();
}
