//! The surface of the fair lock, when nothing goes wrong.

use std::time::Duration;

use redlatch::{ErrorKind, HoldState, LossCause, Released};
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    wait::GENEROUS,
};

use super::support::{clients, queued};

const MS: Duration = Duration::from_millis(1);

behaviours! {
    Cluster:
        forced_release_notifies_the_next_waiter,
        waiters_are_listed_in_order_with_their_clients,
        scans_find_holders_and_fair_locks,
        names_with_braces_lock_independently;
    Single:
        a_free_lock_is_taken_and_freed_with_two_commands,
        every_acquisition_excludes_every_other,
        guards_of_one_owner_share_a_hold,
        next_holder_learns_that_the_lease_before_expired,
        name_of_another_kind_is_a_typed_error;
}

async fn a_free_lock_is_taken_and_freed_with_two_commands(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.fair_lock("orders:42");
    lock.lock().await.unwrap().release().await.unwrap();
    let before = backend.script_calls();
    let guard = lock.lock().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(backend.script_calls() - before, 2);
    assert_tables_empty(&client).await;
    backend.assert_only_counters_left();
}

async fn every_acquisition_excludes_every_other(backend: &Backend) {
    let clients = clients(backend, 2).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    for client in &clients {
        let lock = client.fair_lock("x");
        assert!(lock.try_lock().await.unwrap().is_none());
        let waiting = lock.try_lock_for(300 * MS).await;
        backend.assert_not_granted(waiting.map(|guard| guard.is_some()));
        assert!(lock.is_locked().await.unwrap());
        assert!(lock.is_held_by(guard.owner()).await.unwrap());
    }
    let other = clients[1].fair_lock("y");
    assert!(other.try_lock().await.unwrap().is_some());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = clients[1].fair_lock("x").try_lock().await.unwrap().unwrap();
    assert!(next.token() > token);
}

async fn guards_of_one_owner_share_a_hold(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.fair_lock("x");
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    assert_eq!((outer.hold_count(), outer.token()), (2, inner.token()));
    assert_eq!(lock.hold_count(outer.owner()).await.unwrap(), 2);
    outer.extend(Duration::from_secs(90)).await.unwrap();
    assert!(lock.remaining().await.unwrap().unwrap() > Duration::from_secs(80));
    assert_eq!(outer.release().await.unwrap(), Released::StillHeld(1));
    assert_eq!(inner.release().await.unwrap(), Released::Free);
}

async fn next_holder_learns_that_the_lease_before_expired(backend: &Backend) {
    let clients = clients(backend, 2).await;
    let dead = clients[0]
        .fair_lock("x")
        .lock()
        .lease(400 * MS)
        .await
        .unwrap();
    let lost = tokio::spawn(dead.lost());
    std::mem::forget(dead);
    let next = clients[1].fair_lock("x").lock().await.unwrap();
    assert!(next.is_after_abandonment());
    assert_eq!(lost.await.unwrap(), LossCause::Expired);
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

async fn name_of_another_kind_is_a_typed_error(backend: &Backend) {
    let client = backend.client().await;
    let _plain = client.lock("plain").lock().await.unwrap();
    let _fair = client.fair_lock("fair").lock().await.unwrap();
    let wrong = |error: redlatch::Error| assert_eq!(error.kind(), ErrorKind::WrongKind);
    wrong(client.fair_lock("plain").lock().await.unwrap_err());
    wrong(client.fair_lock("plain").info().await.unwrap_err());
    wrong(
        client
            .fair_lock("plain")
            .waiters()
            .next()
            .await
            .unwrap()
            .unwrap_err(),
    );
    wrong(client.lock("fair").try_lock().await.unwrap_err());
    wrong(client.lock("fair").info().await.unwrap_err());
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

// L50
async fn names_with_braces_lock_independently(backend: &Backend) {
    let clients = clients(backend, 2).await;
    for name in ["{t}x", "a{b", "}{", "50%", "x {y} z", "🔒", "a@{t}"] {
        let guard = clients[0].fair_lock(name).lock().await.unwrap();
        let waiter = queued(&clients[1].fair_lock(name)).await;
        guard.release().await.unwrap();
        waiter.await.unwrap().release().await.unwrap();
    }
    backend.assert_only_counters_left();
}
