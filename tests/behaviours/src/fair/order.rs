//! Order of arrival, and who is listed.

use redlatch::FairLock;

use super::support::{Fair, Grants, clients, queued, queued_as, ticket};
use crate::prelude::*;

behaviours! {
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

async fn try_lock_does_not_overtake_waiters(locks: [FairLock; 3]) {
    let guard = locks[0].lock().await.unwrap();
    let waiter = queued(&locks[1]).await;
    let lock = &locks[2];
    assert!(lock.try_lock().await.unwrap().is_none());
    // Free, and the first in the queue does not know yet.
    let tries = join_all((0..20).map(|_| lock.try_lock().into_future()));
    let (released, tries) = futures_util::join!(guard.release(), tries);
    released.unwrap();
    assert!(tries.into_iter().all(|taken| taken.unwrap().is_none()));
    waiter.await.unwrap().release().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_some());
}

async fn newcomer_queues_behind_waiters_although_the_lock_is_free(locks: [FairLock; 3]) {
    let grants = Grants::default();
    let guard = locks[0].lock().await.unwrap();
    let first = queued_as(0, &locks[1], &grants).await;
    let newcomer = locks[2].lock().into_future();
    let (released, newcomer) = futures_util::join!(guard.release(), newcomer);
    released.unwrap();
    grants.note(1);
    drop(newcomer.unwrap());
    first.await.unwrap();
    assert_eq!(grants.list(), [0, 1]);
}

async fn re_entry_does_not_queue(locks: [FairLock; 2]) {
    let lock = &locks[0];
    let outer = lock.lock().await.unwrap();
    let waiter = queued(&locks[1]).await;
    let local = queued(lock).await;
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    let innermost = lock.try_lock().owner(outer.owner()).await.unwrap().unwrap();
    assert_eq!(inner.token(), outer.token());
    drop((outer, inner, innermost));
    waiter.await.unwrap().release().await.unwrap();
    local.await.unwrap().release().await.unwrap();
}

async fn timed_out_waiter_leaves_the_queue_at_once(fair: Fair<'_, 3>) {
    let guard = fair[0].lock().await.unwrap();
    let impatient = tokio::spawn(fair[1].try_lock_for(1_000 * MS).into_future());
    fair.pass(50 * MS).await;
    let patient = queued(&fair[2]).await;
    assert_busy(&fair, impatient.await.unwrap());
    fair[1].client().settled().await;
    assert_eq!(guard.hold_count(), 1);
    assert_eq!(fair[1].info().await.unwrap().unwrap().waiters, 1);
    guard.release().await.unwrap();
    patient.await.unwrap().release().await.unwrap();
}

async fn polling_waiters_are_served_in_order(_: Emptied<'_>, locks: [FairLock; 2]) {
    let guard = locks[0].lock().await.unwrap();
    let poll = WaitStrategy::Poll(Backoff::exponential(5 * MS, 20_000 * MS));
    let (grants, mut tasks) = (Grants::default(), Vec::new());
    for who in 0..12_usize {
        let (lock, grants) = (&locks[who / 3 % 2], grants.clone());
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
        ticket(lock, &owner).await;
    }
    guard.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(grants.list(), (0..12).collect::<Vec<_>>());
}

async fn idle_queue_costs_one_request_per_client_and_two_seconds(fair: Fair<'_, 3>) {
    let guard = fair[0].lock().await.unwrap();
    let mut tasks = Vec::new();
    for who in 0..30 {
        tasks.push(queued(&fair[1 + who % 2]).await);
    }
    let before = fair.script_calls();
    let start = Instant::now();
    fair.pass(8_000 * MS).await;
    let looks = fair.script_calls() - before;
    // Renewals of the holder come on top: one every ten seconds.
    let most = 2 * (start.elapsed().as_millis() / 1_600) + 2;
    assert!(u128::from(looks) <= most, "{looks} looks, {most} allowed");
    drop(guard);
    for task in tasks {
        task.await.unwrap().release().await.unwrap();
    }
}

async fn forced_release_notifies_the_next_waiter(locks: [FairLock; 2]) {
    let guard = locks[0].lock().await.unwrap();
    let waiter = queued(&locks[1]).await;
    assert!(locks[1].force_release().await.unwrap());
    let next = waiter.await.unwrap();
    assert!(next.token() > guard.token());
    let released = guard.release().await.unwrap();
    assert!([Released::Revoked, Released::TakenOver].contains(&released));
}

async fn waiters_are_listed_in_order_with_their_clients(backend: &Backend) {
    let clients = clients(backend, 3).await;
    let lock = clients[0].fair_lock("x");
    let guard = lock.lock().await.unwrap();
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
    tasks.iter().for_each(JoinHandle::abort);
    guard.release().await.unwrap();
}

async fn scans_find_holders_and_fair_locks(client: Client) {
    let _plain = client.lock("a").lock().await.unwrap();
    let guard = client.fair_lock("b").lock().await.unwrap();
    let holders = client.fair_lock("b").holders().await.unwrap();
    assert_eq!(holders[0].info.token, guard.token());
    let mut found = client.fair_locks("*");
    assert_eq!(found.next().await.unwrap().unwrap().info.name, "b");
    assert!(found.next().await.is_none());
}
