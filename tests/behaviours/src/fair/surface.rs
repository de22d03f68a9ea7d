//! The surface of the fair lock, when nothing goes wrong.

use redlatch::Released;

use super::support::{clients, queued};
use crate::prelude::*;

behaviours! {
    Cluster:
        forced_release_notifies_the_next_waiter,
        waiters_are_listed_in_order_with_their_clients,
        scans_find_holders_and_fair_locks;
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
