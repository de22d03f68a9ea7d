//! Waiting for a lock that is held.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use redlatch::{Backoff, Client, ErrorKind, WaitStrategy};
use redlatch_tests::backend::{Backend, assert_tables_empty};
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);

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
        waiters_of_the_holding_owner_do_not_queue,
        unpolled_waiter_does_not_stall_others;
}

async fn a_release_wakes_a_waiter_of_another_client(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    for _ in 0..20 {
        let guard = a.lock("x").lock().await.unwrap();
        let lock = b.lock("x");
        let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
        registered(&a, "x", 1).await;
        let start = Instant::now();
        drop(guard);
        waiter.await.unwrap().release().await.unwrap();
        if let Backend::Embedded { .. } = backend {
            assert!(
                start.elapsed() < 1_000 * MS,
                "woken by the release and not by its own next look"
            );
        }
    }
    assert_tables_empty(&b).await;
}

async fn a_waiter_takes_over_when_the_lease_ends(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().lease(200 * MS).await.unwrap();
    std::mem::forget(guard);
    let start = Instant::now();
    let next = b.lock("x").lock().await.unwrap();
    assert!(next.is_after_abandonment());
    backend.assert_took(190 * MS, start);
}

async fn a_bounded_wait_ends_at_its_time(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let _guard = a.lock("x").lock().await.unwrap();
    for wait in [0, 50, 300] {
        let wait = wait * MS;
        let start = Instant::now();
        let guard = b.lock("x").try_lock_for(wait).await;
        backend.assert_not_granted(guard.map(|guard| guard.is_some()));
        backend.assert_took(wait, start);
    }
    assert_tables_empty(&b).await;
}

/// The re-check bound is 2 s ± 20 %, so in 0.5 s an idle waiter says nothing.
async fn idle_waiter_sends_nothing_between_rechecks(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().await.unwrap();
    let lock = b.lock("x");
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    registered(&a, "x", 1).await;
    let before = backend.script_calls();
    backend.pass(500 * MS).await;
    assert_eq!(backend.script_calls() - before, 0);
    drop(guard);
    drop(waiter.await.unwrap());
}

// L8
async fn tasks_of_one_client_are_served_in_order(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.lock("x");
    let guard = lock.lock().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for i in 0..100 {
        let (lock, order) = (lock.clone(), Arc::clone(&order));
        let (queued, is_queued) = tokio::sync::oneshot::channel();
        tasks.push(tokio::spawn(async move {
            let mut acquiring = Box::pin(lock.lock().into_future());
            assert!(futures_util::poll!(acquiring.as_mut()).is_pending());
            queued.send(()).unwrap();
            let guard = acquiring.await.unwrap();
            order.lock().unwrap().push(i);
            guard.release().await.unwrap();
        }));
        is_queued.await.unwrap();
    }
    guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

// L8
async fn commands_per_acquisition_stay_flat_as_waiters_grow(backend: &Backend) {
    let client = backend.client().await;
    for waiters in [1_u32, 16, 128, 1_000] {
        let before = backend.script_calls();
        let count = Arc::new(AtomicU32::new(0));
        let tasks: Vec<_> = (0..waiters)
            .map(|_| {
                let (lock, count) = (client.lock("x"), Arc::clone(&count));
                tokio::spawn(async move {
                    let guard = lock.lock().await.unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                    guard.release().await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(count.load(Ordering::Relaxed), waiters);
        let per_acquisition =
            f64::from(u32::try_from(backend.script_calls() - before).unwrap()) / f64::from(waiters);
        println!("{waiters} local tasks: {per_acquisition:.2} commands per acquisition");
        assert!(
            per_acquisition <= 4.0,
            "{per_acquisition} commands per acquisition with {waiters} waiters"
        );
    }
}

// L5
async fn deadline_of_one_waiter_does_not_end_another(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().await.unwrap();
    let impatient = b.lock("x").try_lock_for(100 * MS);
    let patient: Vec<_> = (0..100)
        .map(|_| {
            let lock = b.lock("x");
            tokio::spawn(async move { lock.try_lock_for(20_000 * MS).await.unwrap().is_some() })
        })
        .collect();
    backend.assert_not_granted(impatient.await.map(|guard| guard.is_some()));
    guard.release().await.unwrap();
    for task in patient {
        assert!(task.await.unwrap());
    }
}

// L6
async fn ten_thousand_names_are_waited_for_at_once(backend: &Backend) {
    let (many, _turn) = backend.crowd().await;
    let (a, b) = (
        backend.patient_client().await,
        backend.patient_client().await,
    );
    let names: Vec<_> = (0..many).map(|i| format!("n{i}")).collect();
    let holds = names.iter().map(|name| a.lock(name).lock().into_future());
    let guards: Vec<_> = futures_util::future::join_all(holds)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let waiters: Vec<_> = names
        .iter()
        .map(|name| {
            let lock = b.lock(name);
            tokio::spawn(async move { lock.lock().await.map(drop) })
        })
        .collect();
    registered(&a, &names[many - 1], 1).await;
    drop(guards);
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    a.settled().await;
    assert_tables_empty(&b).await;
    backend.assert_only_counters_left();
}

async fn polling_ends_after_its_attempts(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    a.lock("x").lock().await.unwrap().release().await.unwrap();
    let guard = a.lock("x").lock().await.unwrap();
    let poll = WaitStrategy::Poll(Backoff::constant(5 * MS).max_attempts(3));
    let calls = backend.script_calls();
    let error = b.lock("x").lock().strategy(poll).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyAttempts);
    b.settled().await;
    // Three requests, and an undo, so that the server refuses copies of them.
    assert_eq!(backend.script_calls() - calls, 4);
    let lock = b.lock("x");
    let waiting = lock.try_lock_for(10_000 * MS).strategy(poll);
    assert!(waiting.await.unwrap().is_none());
    b.settled().await;
    assert_eq!(backend.script_calls() - calls, 8);
    guard.release().await.unwrap();
}

async fn waiters_of_the_holding_owner_do_not_queue(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let foreign = a.lock("x").lock().await.unwrap();
    let lock = b.lock("x");
    let owner = b.owner();
    let first = tokio::spawn(lock.lock().owner(&owner).into_future());
    registered(&a, "x", 1).await;
    let stranger = tokio::spawn(lock.lock().into_future());
    let second = tokio::spawn(lock.lock().owner(&owner).into_future());
    backend.pass(10 * MS).await;
    foreign.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!(second.owner(), first.owner());
    assert!(!stranger.is_finished());
    first.release().await.unwrap();
    second.release().await.unwrap();
    drop(stranger.await.unwrap().unwrap());
}

async fn unpolled_waiter_does_not_stall_others(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().await.unwrap();
    let mut stuck = Box::pin(b.lock("x").lock().into_future());
    for _ in 0..20 {
        assert!(futures_util::poll!(stuck.as_mut()).is_pending());
        backend.pass(MS).await;
    }
    let lock = b.lock("x");
    let waiter = tokio::spawn(async move { lock.lock().await.unwrap() });
    drop(guard);
    // The first in line is never polled again, and the second takes its turn after two re-check
    // bounds.
    let next = waiter.await.unwrap();
    next.release().await.unwrap();
    stuck.await.unwrap().release().await.unwrap();
    assert_tables_empty(&b).await;
}

/// Waits until the server knows of `waiters` waiters.
async fn registered(client: &Client, name: &str, waiters: u64) {
    redlatch_tests::wait::eventually(
        "a waiter to register",
        redlatch_tests::wait::GENEROUS,
        async || {
            client
                .lock(name)
                .info()
                .await
                .unwrap()
                .is_some_and(|info| info.waiters == waiters)
        },
    )
    .await;
}

use std::future::IntoFuture;
