//! Waiting for permits: order, sizes, calls.

use std::sync::atomic::Ordering::Relaxed;

use redlatch::Semaphore;

use super::{all_back, assert_all_back, queued, set};
use crate::{fair::support::Grants, prelude::*};

behaviours! {
    left all_back;
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

/// Waits for `n` permits in a task of its own, notes `at` when it has them, and keeps them for
/// `span`.
fn waiter(of: &Semaphore, n: u32, at: usize, grants: &Grants, span: Duration) -> JoinHandle<()> {
    let (semaphore, grants) = (of.clone(), grants.clone());
    tokio::spawn(async move {
        let guard = semaphore.acquire_many(n).await.unwrap();
        grants.note(at);
        sleep(span).await;
        guard.release().await.unwrap();
    })
}

// L32
async fn waiters_are_served_in_order_whatever_their_clients_and_sizes(clients: [Client; 6]) {
    let semaphore = clients[5].semaphore("x").permits_if_unset(5);
    let guard = semaphore.acquire_many(5).await.unwrap();
    let (grants, mut tasks) = (Grants::default(), Vec::new());
    for at in 0..15 {
        let semaphore = clients[at * 7 % 5].semaphore("x");
        tasks.push(waiter(&semaphore, [5, 4, 3][at % 3], at, &grants, MS));
        queued(&semaphore, at as u64 + 1).await;
    }
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), (0..15).collect::<Vec<_>>());
}

async fn raised_number_wakes_waiters_at_once(backend: &Backend, [client, other]: [Client; 2]) {
    let semaphore = client.semaphore("x").permits_if_unset(3);
    let _guard = semaphore.acquire_many(3).await.unwrap();
    let more = waiter(&semaphore, 2, 0, &Grants::default(), Duration::ZERO);
    queued(&semaphore, 1).await;
    let many = tokio::spawn(other.semaphore("x").acquire_many(3).into_future());
    queued(&semaphore, 2).await;
    let started = Instant::now();
    semaphore.set_permits(5).await.unwrap();
    more.await.unwrap();
    semaphore.set_permits(2).await.unwrap();
    assert_fails(many.await.unwrap(), ErrorKind::OutOfRange);
    // Not by the clock.
    backend.assert_swift(started.elapsed(), SECOND);
}

async fn waiter_that_leaves_lets_the_next_one_in(backend: &Backend, client: Client) {
    let semaphore = client.semaphore("x").permits_if_unset(5);
    for times_out in [false, true] {
        let guard = semaphore.acquire_many(3).await.unwrap();
        // Long enough for the second one to come.
        let wait = if times_out { 2 * SECOND } else { 60 * SECOND };
        let first = tokio::spawn(semaphore.try_acquire_many_for(5, wait).into_future());
        queued(&semaphore, 1).await;
        let second = waiter(&semaphore, 2, 1, &Grants::default(), Duration::ZERO);
        queued(&semaphore, 2).await;
        match times_out {
            true => assert_busy(backend, first.await.unwrap()),
            false => first.abort(),
        }
        second.await.unwrap();
        drop(guard);
        assert_all_back(backend, &client, &semaphore).await;
    }
}

// L32
async fn a_waiter_for_many_is_served_while_others_come_and_go(client: Client) {
    let semaphore = client.semaphore("x").permits_if_unset(5);
    let stop = Arc::new(AtomicBool::new(false));
    let busy = spawned(8, |_| {
        let (semaphore, stop) = (semaphore.clone(), Arc::clone(&stop));
        async move {
            while !stop.load(Relaxed) {
                let guard = semaphore.acquire().await.unwrap();
                sleep(2 * MS).await;
                guard.release().await.unwrap();
            }
        }
    });
    sleep(10 * MS).await;
    for _ in 0..10 {
        let five = semaphore.try_acquire_many_for(5, GENEROUS).await;
        let five = five.unwrap().expect("the others go on, and it is served");
        five.release().await.unwrap();
    }
    stop.store(true, Relaxed);
    finished(busy).await;
}

async fn deletion_ends_waits_with_a_typed_error(backend: &Backend, clients: [Client; 2]) {
    let semaphore = set(&clients[0], 1).await;
    let poll = WaitStrategy::Poll(Backoff::constant(100 * MS));
    for strategy in [WaitStrategy::Notify, poll] {
        let guard = semaphore.acquire().await.unwrap();
        let mut tasks = Vec::new();
        for at in 0..6 {
            let waits = clients[at % 2].semaphore("x").acquire();
            tasks.push(tokio::spawn(waits.strategy(strategy).into_future()));
        }
        queued(&semaphore, 6).await;
        semaphore.delete().await.unwrap();
        let start = Instant::now();
        for ended in finished(tasks).await {
            assert_fails(ended, ErrorKind::NotSet);
        }
        if strategy == WaitStrategy::Notify {
            backend.assert_swift(start.elapsed(), 50 * MS);
        }
        drop(guard);
        for client in &clients {
            client.settled().await;
        }
        // Their places are gone.
        semaphore.set_permits(1).await.unwrap();
        assert_eq!(semaphore.totals().await.unwrap().waiters, 0);
    }
}

async fn held_permits_never_exceed_their_number(clients: [Client; 2]) {
    let (out, peak) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let workers = spawned(20, |at| {
        let semaphore = clients[at % 2].semaphore("x").permits_if_unset(7);
        let (out, peak) = (Arc::clone(&out), Arc::clone(&peak));
        async move {
            for round in 0..15 {
                let n = [1, 2, 5][(at + round) % 3];
                let guard = semaphore.acquire_many(n).await.unwrap();
                peak.fetch_max(out.fetch_add(n, Relaxed) + n, Relaxed);
                sleep(MS).await;
                out.fetch_sub(n, Relaxed);
                if round % 2 == 0 {
                    guard.release().await.unwrap();
                }
            }
        }
    });
    finished(workers).await;
    let peak = peak.load(Relaxed);
    assert!((5..=7).contains(&peak), "{peak}");
}
