//! A lock over a quorum of servers that know nothing of each other.

use redlatch::{NodeOutcome, NodeOutcomes, RedLock, RedLockBuilder};
use tokio::sync::Mutex;

use super::Fleet;
use crate::prelude::*;

fleet_behaviours! { 5;
    a_quorum_holds_and_all_are_released,
    two_red_locks_exclude_each_other,
    a_minority_held_by_another_does_not_matter,
    a_quorum_held_by_another_leaves_nothing_held,
    an_even_split_resolves_itself,
    wrong_input_is_refused,
    each_attempt_costs_one_command_per_node,
    hold_is_lost_when_a_majority_was_released_by_force,
    young_nodes_are_not_counted,
}

/// Waits for a node for as long as a busy machine may take.
fn builder(clients: &[Client]) -> RedLockBuilder {
    let locks: Vec<_> = clients.iter().map(|client| client.lock("x")).collect();
    let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    RedLock::builder(&nodes).node_timeout(30 * SECOND)
}

/// Servers of a test are young, and lose nothing unless the test says so.
fn durable(clients: &[Client]) -> RedLockBuilder {
    builder(clients).durable_nodes()
}

pub fn red(clients: &[Client]) -> RedLock {
    durable(clients).build().unwrap()
}

/// Where nodes hang, so that their time matters.
pub fn hasty(clients: &[Client]) -> RedLock {
    durable(clients).node_timeout(SECOND).build().unwrap()
}

/// Holds `x` on each of these servers.
async fn hold<'a>(clients: impl Iterator<Item = &'a Client>) -> Vec<LockGuard> {
    let holds = clients.map(|client| client.lock("x").lock().into_future());
    try_join_all(holds).await.unwrap()
}

async fn held_on(clients: &[Client]) -> usize {
    let mut held = 0;
    for client in clients {
        client.settled().await;
        held += usize::from(client.lock("x").is_locked().await.unwrap());
    }
    held
}

async fn a_quorum_holds_and_all_are_released(clients: Vec<Client>) {
    let guard = red(&clients).lock().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    // A server of a busy machine may answer too late to be counted.
    let held = guard.nodes_held();
    assert!(held >= 3, "{held} of 5");
    assert_eq!(held_on(&clients).await, held);
    assert!(guard.remaining() > 25 * SECOND);
    guard.extend(40 * SECOND).await.unwrap();
    assert!(guard.remaining() > 35 * SECOND);
    for (_, released) in guard.release().await.unwrap() {
        assert!(released.is_clean());
    }
}

async fn two_red_locks_exclude_each_other(fleet: &Fleet) {
    let inside = Arc::new(Mutex::new(0));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (clients, inside) = (fleet.clients().await, inside.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                let guard = red(&clients).lock().await.unwrap();
                *inside.try_lock().expect("nobody else is inside") += 1;
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            }
        }));
    }
    finished(tasks).await;
    assert_eq!(*inside.lock().await, 20);
}

async fn a_minority_held_by_another_does_not_matter([clients, others]: [Vec<Client>; 2]) {
    let _guards = hold(others[..2].iter()).await;
    let guard = red(&clients).try_lock().await.unwrap().unwrap();
    assert_eq!(guard.nodes_held(), 3);
    assert_eq!(guard.outcomes().iter().count(), 5);
    for (at, (_, outcome)) in guard.outcomes().iter().enumerate() {
        let is_busy = matches!(outcome, NodeOutcome::Busy);
        assert_eq!(is_busy, at < 2, "{at}: {outcome:?}");
        assert!(is_busy || matches!(outcome, NodeOutcome::Granted));
    }
}

async fn a_quorum_held_by_another_leaves_nothing_held(fleet: &Fleet, [a, b]: [Vec<Client>; 2]) {
    let guards = hold(b[..3].iter()).await;
    let lock = red(&a);
    assert!(lock.try_lock().await.unwrap().is_none());
    assert_eq!(held_on(&a[3..]).await, 0);
    let waiting = tokio::spawn(lock.lock().into_future());
    fleet.pass(100 * MS).await;
    drop(guards);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// Four nodes, two contenders with two each: both give back and try again at different times.
// L42
async fn an_even_split_resolves_itself(fleet: &Fleet, [a, b]: [Vec<Client>; 2]) {
    let guards = hold(a[..2].iter().chain(&b[2..4])).await;
    let waiting = [&a[..4], &b[..4]].map(|clients| {
        let waiting = red(clients).lock().into_future();
        tokio::spawn(async move { waiting.await.unwrap().release().await.unwrap() })
    });
    fleet.pass(20 * MS).await;
    drop(guards);
    finished(waiting).await;
}

async fn wrong_input_is_refused(clients: Vec<Client>) {
    let twice = [clients[0].clone(), clients[1].clone(), clients[0].clone()];
    let (four, zero) = (durable(&clients[..4]), Duration::ZERO);
    for (builder, what) in [
        (durable(&clients[..2]), "three"),
        (durable(&clients).quorum(2), "quorum of 5 nodes is 3 to 5"),
        (durable(&clients).quorum(6), "quorum"),
        (four.quorum(2), "quorum of 4 nodes is 3 to 4"),
        (durable(&twice), "one server"),
        (durable(&clients).node_timeout(zero), "node_timeout"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains(what), "{error}");
    }
    let few = clients[0].red_lock("x", &clients[1..2]);
    assert_fails(few.lock().await, ErrorKind::InvalidOption);
    let owned = red(&clients).lock().owner(&clients[0].owner()).await;
    assert_fails(owned, ErrorKind::InvalidOption);
    let unnamed = clients[0].red_lock("", &clients[1..]).try_lock().await;
    assert_fails(unnamed, ErrorKind::InvalidName);
}

async fn each_attempt_costs_one_command_per_node(fleet: &Fleet, clients: Vec<Client>) {
    let calls = || -> u64 { fleet.0.iter().map(|node| node.script_calls()).sum() };
    red(&clients).lock().await.unwrap().release().await.unwrap();
    let before = calls();
    red(&clients).lock().await.unwrap().release().await.unwrap();
    assert_eq!(calls() - before, 10);
}

async fn hold_is_lost_when_a_majority_was_released_by_force(clients: Vec<Client>) {
    let guard = red(&clients).lock().renewed_lease(SECOND).await.unwrap();
    let lost = tokio::spawn(guard.lost());
    let ending = tokio::spawn(guard.ending(SECOND / 10));
    for (at, client) in clients.iter().enumerate().take(3) {
        assert_eq!(guard.nodes_held(), 5 - at);
        assert!(guard.check().is_ok());
        assert!(!ending.is_finished());
        assert!(client.lock("x").force_release().await.unwrap());
    }
    assert!(guard.check().is_err());
    lost.await.unwrap();
    ending.await.unwrap();
    guard.release().await.unwrap();
}

/// A node that was just started may have forgotten a hold.
async fn young_nodes_are_not_counted(fleet: &Fleet, clients: Vec<Client>) {
    let lock = builder(&clients).longest_lease(2 * SECOND);
    let lock = lock.build().unwrap();
    assert_fails(lock.try_lock().await, ErrorKind::InvalidLease);
    let error = lock.try_lock().lease(2 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let source = error.reason().unwrap();
    let outcomes = source.downcast_ref::<NodeOutcomes>().unwrap();
    let young = |(_, outcome): &(&str, &NodeOutcome)| matches!(outcome, NodeOutcome::TooYoung);
    assert!(outcomes.iter().filter(young).count() >= 3, "{outcomes}");
    assert_eq!(held_on(&clients).await, 0);
    // Once they have run for a lease.
    fleet.pass(4 * SECOND).await;
    let guard = lock.lock().lease(2 * SECOND).await.unwrap();
    assert_fails(guard.extend(3 * SECOND).await, ErrorKind::InvalidLease);
    guard.release().await.unwrap();
}
