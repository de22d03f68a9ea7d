//! Order of arrival, and who is listed.

use futures_util::future::join_all;
use redlatch::{Backoff, Released, WaitStrategy};

use super::support::{Grants, clients, queued, queued_as, ticket};
use crate::prelude::*;

behaviours! {
    Everywhere:
        grants_come_in_order_of_arrival;
    Cluster:
        polling_waiters_are_served_in_order,
        idle_queue_costs_one_request_per_client_and_two_seconds,
        forced_release_notifies_the_next_waiter,
        waiters_are_listed_in_order_with_their_clients,
        scans_find_holders_and_fair_locks;
    Single:
        try_lock_does_not_overtake_waiters,
        newcomer_queues_behind_waiters_although_the_lock_is_free,
        re_entry_does_not_queue,
        timed_out_waiter_leaves_the_queue_at_once;
}

async fn grants_come_in_order_of_arrival(backend: &Backend) {
    let clients = clients(backend, 4).await;
    let grants = Grants::default();
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let mut tasks = Vec::new();
    for who in 0..40 {
        // Clients in an order that repeats nothing.
        let lock = clients[who * who / 3 % 4].fair_lock("x");
        tasks.push(queued_as(who, &lock, &grants).await);
    }
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), (0..40).collect::<Vec<_>>());
    for client in &clients {
        assert_tables_empty(client).await;
    }
    backend.assert_only_counters_left();
}

async fn try_lock_does_not_overtake_waiters(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let waiter = queued(&clients[1].fair_lock("x")).await;
    let lock = clients[2].fair_lock("x");
    assert!(lock.try_lock().await.unwrap().is_none());
    // Free, and the first in the queue does not know yet.
    let tries = join_all((0..20).map(|_| lock.try_lock().into_future()));
    let (released, tries) = futures_util::join!(guard.release(), tries);
    released.unwrap();
    assert!(tries.into_iter().all(|taken| taken.unwrap().is_none()));
    waiter.await.unwrap().release().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_some());
}

async fn newcomer_queues_behind_waiters_although_the_lock_is_free(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let grants = Grants::default();
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let first = queued_as(0, &clients[1].fair_lock("x"), &grants).await;
    let newcomer = clients[2].fair_lock("x");
    let (released, newcomer) = futures_util::join!(guard.release(), newcomer.lock().into_future());
    released.unwrap();
    grants.note(1);
    drop(newcomer.unwrap());
    first.await.unwrap();
    assert_eq!(grants.list(), [0, 1]);
}

async fn re_entry_does_not_queue(backend: &Backend) {
    let clients = clients(backend, 2).await;
    let lock = clients[0].fair_lock("x");
    let outer = lock.lock().await.unwrap();
    let waiter = queued(&clients[1].fair_lock("x")).await;
    let local = queued(&lock).await;
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    let innermost = lock.try_lock().owner(outer.owner()).await.unwrap().unwrap();
    assert_eq!(inner.token(), outer.token());
    drop((outer, inner, innermost));
    waiter.await.unwrap().release().await.unwrap();
    local.await.unwrap().release().await.unwrap();
}

async fn timed_out_waiter_leaves_the_queue_at_once(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let lock = clients[1].fair_lock("x");
    let impatient = tokio::spawn(lock.try_lock_for(1_000 * MS).into_future());
    backend.pass(50 * MS).await;
    let patient = queued(&clients[2].fair_lock("x")).await;
    assert_busy(backend, impatient.await.unwrap());
    clients[1].settled().await;
    assert_eq!(guard.hold_count(), 1);
    assert_eq!(lock.info().await.unwrap().unwrap().waiters, 1);
    guard.release().await.unwrap();
    patient.await.unwrap().release().await.unwrap();
}

async fn polling_waiters_are_served_in_order(backend: &Backend) {
    let clients = clients(backend, 2).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let poll = WaitStrategy::Poll(Backoff::exponential(5 * MS, 20_000 * MS));
    let grants = Grants::default();
    let mut tasks = Vec::new();
    for who in 0..12_usize {
        let (lock, grants) = (clients[who / 3 % 2].fair_lock("x"), grants.clone());
        let owner = lock.client().owner();
        let mut waits = lock.lock().owner(&owner);
        if who % 2 == 0 {
            waits = waits.strategy(poll);
        }
        tasks.push(tokio::spawn(async move {
            let guard = waits.await.unwrap();
            grants.note(who);
            guard.release().await.unwrap();
        }));
        ticket(&lock, &owner).await;
    }
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), (0..12).collect::<Vec<_>>());
    backend.assert_only_counters_left();
}

async fn idle_queue_costs_one_request_per_client_and_two_seconds(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let mut tasks = Vec::new();
    for who in 0..30 {
        tasks.push(queued(&clients[1 + who % 2].fair_lock("x")).await);
    }
    let before = backend.script_calls();
    let start = Instant::now();
    backend.pass(8_000 * MS).await;
    let looks = backend.script_calls() - before;
    // Renewals of the holder come on top: one every ten seconds.
    let most = 2 * (start.elapsed().as_millis() / 1_600) + 2;
    assert!(u128::from(looks) <= most, "{looks} looks, {most} allowed");
    drop(guard);
    for task in tasks {
        task.await.unwrap().release().await.unwrap();
    }
}

async fn forced_release_notifies_the_next_waiter(backend: &Backend) {
    let clients = clients(backend, 2).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let waiter = queued(&clients[1].fair_lock("x")).await;
    assert!(clients[1].fair_lock("x").force_release().await.unwrap());
    let next = waiter.await.unwrap();
    assert!(next.token() > guard.token());
    assert!(matches!(
        guard.release().await.unwrap(),
        Released::Revoked | Released::TakenOver
    ));
}

async fn waiters_are_listed_in_order_with_their_clients(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let lock = clients[0].fair_lock("x");
    assert!(lock.waiters().next().await.is_none());
    let mut tasks = Vec::new();
    for who in 0..300 {
        tasks.push(queued(&clients[who % 3].fair_lock("x")).await);
    }
    let mut waiters = lock.waiters();
    for who in 0..300 {
        let waiter = waiters.next().await.unwrap().unwrap();
        let client = clients[who % 3].id().as_str();
        assert!(waiter.owner.starts_with(client), "{waiter:?}");
        assert_eq!(waiter.position, who as u64);
        assert!(waiter.alive_for > Duration::ZERO);
        assert!(waiter.waiting < GENEROUS * 4);
        assert!(waiter.metadata.is_some());
    }
    assert!(waiters.next().await.is_none());
    assert_eq!(lock.info().await.unwrap().unwrap().waiters, 300);
    for task in &tasks {
        task.abort();
    }
    guard.release().await.unwrap();
}

async fn scans_find_holders_and_fair_locks(backend: &Backend) {
    let client = backend.client().await;
    let _plain = client.lock("a").lock().await.unwrap();
    let guard = client.fair_lock("b").lock().await.unwrap();
    let holders = client.fair_lock("b").holders().await.unwrap();
    assert_eq!(holders[0].info.token, guard.token());
    let mut found = client.fair_locks("*");
    assert_eq!(found.next().await.unwrap().unwrap().info.name, "b");
    assert!(found.next().await.is_none());
}
