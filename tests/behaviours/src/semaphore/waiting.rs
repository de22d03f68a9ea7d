//! Waiting for permits: order, sizes, calls.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use futures_util::future::join_all;
use redlatch::{Backoff, ErrorKind, Semaphore, WaitStrategy};
use tokio::task::JoinHandle;

use super::{assert_all_back, pool, queued, set_pool};
use crate::prelude::*;

behaviours! {
    Everywhere:
        waiters_are_served_in_order_whatever_their_clients_and_sizes;
    Cluster:
        raised_number_wakes_waiters_at_once,
        deletion_ends_waits_with_a_typed_error;
    Single:
        waiter_that_leaves_lets_the_next_one_in,
        a_waiter_for_many_is_served_while_others_come_and_go,
        held_permits_never_exceed_their_number;
}

type Log = Arc<Mutex<Vec<usize>>>;

/// Waits for `n` permits in a task of its own, notes `at` when it has them, and keeps them for
/// `span`.
fn waiter(semaphore: &Semaphore, n: u32, at: usize, log: &Log, span: Duration) -> JoinHandle<()> {
    let (semaphore, log) = (semaphore.clone(), Arc::clone(log));
    tokio::spawn(async move {
        let guard = semaphore.acquire_many(n).await.unwrap();
        log.lock().unwrap().push(at);
        tokio::time::sleep(span).await;
        guard.release().await.unwrap();
    })
}

// L32
async fn waiters_are_served_in_order_whatever_their_clients_and_sizes(backend: &Backend) {
    let (client, semaphore) = pool(backend, 5).await;
    let guard = semaphore.acquire_many(5).await.unwrap();
    let (log, mut tasks, mut clients) = (Log::default(), Vec::new(), Vec::new());
    for at in 0..15 {
        if at % 3 == 0 {
            clients.push(backend.client().await);
        }
        let semaphore = clients[at * 7 % clients.len()].semaphore("x");
        tasks.push(waiter(&semaphore, [5, 4, 3][at % 3], at, &log, MS));
        queued(&semaphore, at as u64 + 1).await;
    }
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(*log.lock().unwrap(), (0..15).collect::<Vec<_>>());
    assert_all_back(backend, &client, &semaphore).await;
}

async fn raised_number_wakes_waiters_at_once(backend: &Backend) {
    let (client, semaphore) = pool(backend, 3).await;
    let guard = semaphore.acquire_many(3).await.unwrap();
    let log = Log::default();
    let more = waiter(&semaphore, 2, 0, &log, Duration::ZERO);
    queued(&semaphore, 1).await;
    let other = backend.client().await;
    let many = tokio::spawn(other.semaphore("x").acquire_many(3).into_future());
    queued(&semaphore, 2).await;
    let started = Instant::now();
    semaphore.set_permits(5).await.unwrap();
    more.await.unwrap();
    semaphore.set_permits(2).await.unwrap();
    assert_fails(many.await.unwrap(), ErrorKind::OutOfRange);
    // Not by the clock.
    backend.assert_swift(started.elapsed(), SECOND);
    drop(guard);
    client.settled().await;
    other.settled().await;
    assert_all_back(backend, &client, &semaphore).await;
}

async fn waiter_that_leaves_lets_the_next_one_in(backend: &Backend) {
    for times_out in [false, true] {
        let (client, semaphore) = pool(backend, 5).await;
        let guard = semaphore.acquire_many(3).await.unwrap();
        // Long enough for the second one to come.
        let wait = if times_out { 2 * SECOND } else { 60 * SECOND };
        let first = tokio::spawn(semaphore.try_acquire_many_for(5, wait).into_future());
        queued(&semaphore, 1).await;
        let second = waiter(&semaphore, 2, 1, &Log::default(), Duration::ZERO);
        queued(&semaphore, 2).await;
        if times_out {
            assert_busy(backend, first.await.unwrap());
        } else {
            first.abort();
        }
        second.await.unwrap();
        drop(guard);
        assert_all_back(backend, &client, &semaphore).await;
    }
}

// L32
async fn a_waiter_for_many_is_served_while_others_come_and_go(backend: &Backend) {
    let (client, semaphore) = pool(backend, 5).await;
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..8)
        .map(|_| {
            let (semaphore, stop) = (semaphore.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Relaxed) {
                    let guard = semaphore.acquire().await.unwrap();
                    tokio::time::sleep(2 * MS).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    tokio::time::sleep(10 * MS).await;
    for _ in 0..10 {
        let five = semaphore.try_acquire_many_for(5, GENEROUS).await;
        let five = five.unwrap().expect("the others go on, and it is served");
        five.release().await.unwrap();
    }
    stop.store(true, Relaxed);
    finished(busy).await;
    assert_all_back(backend, &client, &semaphore).await;
}

async fn deletion_ends_waits_with_a_typed_error(backend: &Backend) {
    let (client, semaphore) = set_pool(backend, 1).await;
    let other = backend.client().await;
    let poll = WaitStrategy::Poll(Backoff::constant(100 * MS));
    for strategy in [WaitStrategy::Notify, poll] {
        let guard = semaphore.acquire().await.unwrap();
        let mut tasks = Vec::new();
        for at in 0..6 {
            let waits = [&client, &other][at % 2].semaphore("x").acquire();
            tasks.push(tokio::spawn(waits.strategy(strategy).into_future()));
        }
        queued(&semaphore, 6).await;
        semaphore.delete().await.unwrap();
        let start = Instant::now();
        for task in tasks {
            assert_fails(task.await.unwrap(), ErrorKind::NotSet);
        }
        if strategy == WaitStrategy::Notify {
            backend.assert_swift(start.elapsed(), 50 * MS);
        }
        drop(guard);
        client.settled().await;
        other.settled().await;
        // Their places are gone.
        semaphore.set_permits(1).await.unwrap();
        assert_eq!(semaphore.totals().await.unwrap().waiters, 0);
    }
}

async fn held_permits_never_exceed_their_number(backend: &Backend) {
    let clients = [backend.client().await, backend.client().await];
    let semaphore = clients[0].semaphore("x").permits_if_unset(7);
    let out = Arc::new(Mutex::new((0, 0)));
    let workers = (0..20).map(|at: usize| {
        let semaphore = clients[at % 2].semaphore("x").permits_if_unset(7);
        let out = Arc::clone(&out);
        tokio::spawn(async move {
            for round in 0..15 {
                let n = [1, 2, 5][(at + round) % 3];
                let guard = semaphore.acquire_many(n).await.unwrap();
                {
                    let mut out = out.lock().unwrap();
                    out.0 += n;
                    out.1 = out.1.max(out.0);
                }
                tokio::time::sleep(MS).await;
                out.lock().unwrap().0 -= n;
                if round % 2 == 0 {
                    guard.release().await.unwrap();
                }
            }
        })
    });
    for done in join_all(workers).await {
        done.unwrap();
    }
    let peak = out.lock().unwrap().1;
    assert!((5..=7).contains(&peak), "{peak}");
    clients[1].settled().await;
    assert_all_back(backend, &clients[0], &semaphore).await;
}
