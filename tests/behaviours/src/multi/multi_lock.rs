//! Several locks held as one.

use std::ops::RangeInclusive;

use super::Fleet;
use crate::{lock::registered, prelude::*};

fleet_behaviours! { 2;
    a_busy_member_leaves_nothing_held,
    members_are_taken_in_one_order,
    repeated_member_is_taken_once,
    one_deadline_bounds_all_members,
    wait_of_zero_tries_once,
    held_members_are_renewed_during_the_wait_for_another,
    a_member_lost_during_the_wait_is_taken_again,
    an_owner_re_enters_all_its_members,
    fixed_leases_are_counted_from_the_last_grant,
    wrong_input_is_refused_before_anything_is_sent,
    free_members_are_taken_by_one_command,
    each_kind_and_server_costs_a_command,
    a_busy_member_costs_one_command_and_nothing_to_undo,
    members_around_a_busy_one_are_taken_together,
    waiters_of_the_same_process_are_not_overtaken,
}

/// The locks `a` and `b` of two servers as one, while another client holds `b`.
async fn half_held(fleet: &Fleet, clients: &[Client]) -> (MultiLock, Lock, LockGuard) {
    let busy = fleet.0[1].client().await.lock("b").lock().await.unwrap();
    let a = clients[0].lock("a");
    (clients[0].multi_lock(&[&a, &clients[1].lock("b")]), a, busy)
}

fn plain(client: &Client, count: u64) -> Vec<Lock> {
    let name = |at| client.lock(format!("n{at:03}"));
    (0..count).map(name).collect()
}

fn together(locks: &[Lock]) -> MultiLock {
    let members: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    MultiLock::new(&members)
}

async fn wait_of_zero_tries_once(clients: Vec<Client>) {
    for at in [0, 1] {
        let (a, b) = (clients[0].lock("a"), clients[at].lock("b"));
        let all = clients[0].multi_lock(&[&a, &b]);
        let guard = all.try_lock_for(Duration::ZERO).await.unwrap();
        let guard = guard.expect("all are free");
        assert!(all.try_lock_for(Duration::ZERO).await.unwrap().is_none());
        guard.release().await.unwrap();
    }
}

// L41
async fn a_busy_member_leaves_nothing_held(fleet: &Fleet, clients: Vec<Client>) {
    let (both, a, busy) = half_held(fleet, &clients).await;
    assert!(both.try_lock().await.unwrap().is_none());
    assert_busy(&fleet.0[0], both.try_lock_for(300 * MS).await);
    clients[0].settled().await;
    assert!(!a.is_locked().await.unwrap());
    busy.release().await.unwrap();
    assert!(both.try_lock().await.unwrap().is_some());
}

// L41
async fn members_are_taken_in_one_order(clients: Vec<Client>) {
    let locks = [(1, "c"), (0, "b"), (1, "a")].map(|(at, name)| clients[at].lock(name));
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let members = order.map(|at| &locks[at] as &dyn Lockable);
        let guard = clients[0].multi_lock(&members).lock().await.unwrap();
        let names: Vec<_> = guard.members().iter().map(|held| held.name()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        guard.release().await.unwrap();
    }
}

async fn repeated_member_is_taken_once(clients: Vec<Client>) {
    let a = clients[0].lock("a");
    // The same name on another server is another thing.
    let all = clients[0].multi_lock(&[&a, &a, &clients[1].lock("a"), &clients[0].lock("a")]);
    assert_eq!(all.len(), 2);
    let _guard = all.try_lock().await.unwrap().unwrap();
    assert_eq!(a.info().await.unwrap().unwrap().count, 1);
}

async fn one_deadline_bounds_all_members(fleet: &Fleet, [clients, others]: [Vec<Client>; 2]) {
    let first = others[0].lock("a").lock().lease(SECOND).await.unwrap();
    let second = others[0].lock("b").lock().await.unwrap();
    let (a, b) = (clients[0].lock("a"), clients[0].lock("b"));
    let both = clients[0].multi_lock(&[&a, &b]);
    let started = Instant::now();
    let waiting = tokio::spawn(both.try_lock_for(SECOND).into_future());
    fleet.pass(10 * MS).await;
    drop(first);
    assert_busy(&fleet.0[0], waiting.await.unwrap());
    fleet.0[0].assert_took(SECOND, started);
    assert!(second.check().is_ok());
    clients[0].settled().await;
    assert!(!a.is_locked().await.unwrap());
}

async fn held_members_are_renewed_during_the_wait_for_another(fleet: &Fleet, clients: Vec<Client>) {
    let (both, a, busy) = half_held(fleet, &clients).await;
    let waiting = tokio::spawn(both.lock().renewed_lease(SECOND).into_future());
    for _ in 0..6 {
        fleet.pass(SECOND / 2).await;
        assert!(a.is_locked().await.unwrap());
    }
    busy.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    guard.release().await.unwrap();
}

async fn a_member_lost_during_the_wait_is_taken_again(fleet: &Fleet, clients: Vec<Client>) {
    let (both, a, busy) = half_held(fleet, &clients).await;
    let waiting = tokio::spawn(both.lock().into_future());
    let held = async || a.info().await.unwrap();
    while held().await.is_none() {
        fleet.pass(MS).await;
    }
    let first = held().await.unwrap().token;
    assert!(a.force_release().token(first).await.unwrap());
    while held().await.is_none_or(|info| info.token == first) {
        fleet.pass(MS).await;
    }
    busy.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token("a").unwrap() > first);
    assert!(guard.check().is_ok());
    guard.release().await.unwrap();
}

async fn an_owner_re_enters_all_its_members(clients: Vec<Client>) {
    let (a, b) = (clients[0].lock("a"), clients[1].lock("b"));
    let both = clients[0].multi_lock(&[&a, &b]);
    let owner = clients[0].owner();
    let outer = a.lock().owner(&owner).await.unwrap();
    let guard = both.lock().owner(&owner).await.unwrap();
    assert_eq!(outer.hold_count(), 2);
    assert_eq!(guard.token("a"), Some(outer.token()));
    // The other client's member has an owner of its own.
    assert!(both.try_lock().owner(&owner).await.unwrap().is_none());
    guard.release().await.unwrap();
    outer.release().await.unwrap();
    // All members of a scope's client have the scope's owner.
    let c = clients[0].lock("c");
    let own = clients[0].multi_lock(&[&a, &c]);
    let both = owner.scope(async { (own.lock().await.unwrap(), own.lock().await.unwrap()) });
    let (first, second) = both.await;
    assert_eq!(first.token("c"), second.token("c"));
    assert_eq!(first.members()[0].owner(), &owner);
    first.release().await.unwrap();
    second.release().await.unwrap();
}

async fn fixed_leases_are_counted_from_the_last_grant(fleet: &Fleet, clients: Vec<Client>) {
    let (both, a, busy) = half_held(fleet, &clients).await;
    let waiting = tokio::spawn(both.lock().lease(10 * SECOND).into_future());
    fleet.pass(SECOND).await;
    assert!(a.remaining().await.unwrap().unwrap() <= 9 * SECOND + 50 * MS);
    busy.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.remaining() > 9 * SECOND + 100 * MS);
    guard.ending(8 * SECOND).await;
    guard.check().unwrap();
    assert!(guard.remaining() <= 8 * SECOND);
    guard.release().await.unwrap();
}

async fn wrong_input_is_refused_before_anything_is_sent(fleet: &Fleet, clients: Vec<Client>) {
    let (a, wrong) = (clients[0].lock("a"), clients[0].lock(""));
    let scripts = fleet.0[0].script_calls();
    for (lock, kind) in [
        (clients[0].multi_lock(&[]), ErrorKind::InvalidOption),
        (clients[0].multi_lock(&[&a, &wrong]), ErrorKind::InvalidName),
    ] {
        assert_fails(lock.try_lock().await, kind);
        assert!(lock.is_empty());
    }
    let foreign = fleet.0[0].client().await.owner();
    let lock = clients[0].multi_lock(&[&a]);
    let ended = lock.try_lock().owner(&foreign).await;
    assert_fails(ended, ErrorKind::ForeignOwner);
    // The probe of one more client, which the server may not know yet.
    assert!(fleet.0[0].script_calls() - scripts <= 2);
    assert!(!a.is_locked().await.unwrap());
}

/// What acquiring and releasing cost, in commands of one server that knows all scripts.
async fn costs(fleet: &Fleet, at: usize, all: &MultiLock) -> (u64, u64) {
    fleet.0[at].preload();
    all.lock().await.unwrap().release().await.unwrap();
    let before = fleet.0[at].script_calls();
    let guard = all.lock().await.unwrap();
    let taken = fleet.0[at].script_calls();
    guard.release().await.unwrap();
    (taken - before, fleet.0[at].script_calls() - taken)
}

/// The commands for this number of calls at once, of which `most` may share one. A server that
/// answers at once gets one for each; otherwise the first four have no company yet.
fn shared(calls: u64, most: u64) -> RangeInclusive<u64> {
    calls.min(4 + calls.saturating_sub(4).div_ceil(most))..=calls
}

async fn free_members_are_taken_by_one_command(fleet: &Fleet, clients: Vec<Client>) {
    for (count, cost) in [(1, 1), (2, 1), (10, 1), (100, 1), (101, 2)] {
        let locks = plain(&clients[0], count);
        let all = together(&locks);
        let (taken, released) = costs(fleet, 0, &all).await;
        assert_eq!(taken, cost);
        assert!(shared(count, 16).contains(&released), "{released}");
        // A lease that nothing renews is counted from the one grant. The server is to know the
        // script that extends.
        let guard = all.lock().lease(10 * SECOND).await.unwrap();
        guard.release().await.unwrap();
        let before = fleet.0[0].script_calls();
        let guard = all.lock().lease(10 * SECOND).await.unwrap();
        let extended = fleet.0[0].script_calls() - before - cost;
        let expected = shared(if count > 100 { 100 } else { 0 }, 32);
        assert!(expected.contains(&extended), "{extended}");
        for (held, lock) in guard.members().iter().zip(&locks).take(10) {
            let info = lock.info().await.unwrap().unwrap();
            assert_eq!((info.token, info.count), (held.token(), 1));
        }
        guard.release().await.unwrap();
    }
}

async fn each_kind_and_server_costs_a_command(fleet: &Fleet, clients: Vec<Client>) {
    let here = plain(&clients[0], 3);
    let there = plain(&clients[1], 3);
    let fair = ["x", "y"].map(|name| clients[0].fair_lock(name));
    let read = ["x", "y"].map(|name| clients[0].read_write_lock(format!("rw-{name}")).read_side());
    let mut members: Vec<&dyn Lockable> = Vec::new();
    members.extend(here.iter().map(|lock| lock as &dyn Lockable));
    members.extend(fair.iter().map(|lock| lock as &dyn Lockable));
    members.extend(read.iter().map(|lock| lock as &dyn Lockable));
    let all = clients[0].multi_lock(&members);
    // One for the plain ones, one for the fair ones, two for two sides.
    let (taken, released) = costs(fleet, 0, &all).await;
    assert_eq!(taken, 4);
    assert!((5..=7).contains(&released), "{released}");
    members.extend(there.iter().map(|lock| lock as &dyn Lockable));
    let all = clients[0].multi_lock(&members);
    // Names of two servers take turns in the order.
    let (taken, released) = costs(fleet, 0, &all).await;
    assert_eq!(taken, 3 + 1 + 2);
    assert!((5..=7).contains(&released), "{released}");
    assert_eq!(costs(fleet, 1, &all).await, (3, 3));
}

async fn a_busy_member_costs_one_command_and_nothing_to_undo(fleet: &Fleet, clients: Vec<Client>) {
    let locks = plain(&clients[0], 5);
    let busy = locks[3].lock().await.unwrap();
    let before = fleet.0[0].script_calls();
    assert!(together(&locks).try_lock().await.unwrap().is_none());
    clients[0].settled().await;
    assert_eq!(fleet.0[0].script_calls() - before, 1);
    // Nobody has seen any of them held.
    assert_eq!(fleet.0[0].keys().len(), 1);
    busy.release().await.unwrap();
}

async fn members_around_a_busy_one_are_taken_together(fleet: &Fleet, [a, b]: [Vec<Client>; 2]) {
    let locks = plain(&a[0], 10);
    let all = together(&locks);
    all.lock().await.unwrap().release().await.unwrap();
    // The connection for wakes is there already, so that waiting costs no second look.
    let first = b[0].lock("warm").lock().await.unwrap();
    let waiting = tokio::spawn(a[0].lock("warm").lock().into_future());
    registered(&b[0], "warm", 1).await;
    first.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    a[0].settled().await;
    let busy = b[0].lock("n001").lock().await.unwrap();
    let before = fleet.0[0].script_calls();
    let began = Instant::now();
    let waiting = tokio::spawn(all.lock().into_future());
    fleet.pass(100 * MS).await;
    assert!(locks[0].is_locked().await.unwrap());
    assert!(!locks[2].is_locked().await.unwrap());
    busy.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    // Two looks of this test and a release beside: all at once, the first, the second, perhaps once
    // more when subscribed, the second when woken, the rest at once.
    let cost = fleet.0[0].script_calls() - before - 3;
    // A busy machine may need so long that it looks by the clock as well, every 1.6 s at the
    // soonest.
    let looks = began.elapsed().as_millis() as u64 / 1_600;
    assert!((5..=6 + looks).contains(&cost), "{cost}, {looks}");
    guard.release().await.unwrap();
}

async fn waiters_of_the_same_process_are_not_overtaken(fleet: &Fleet, clients: Vec<Client>) {
    let (a, b) = (clients[0].lock("a"), clients[0].lock("b"));
    let busy = a.lock().await.unwrap();
    let first = tokio::spawn(a.lock().into_future());
    fleet.pass(20 * MS).await;
    let second = tokio::spawn(clients[0].multi_lock(&[&a, &b]).lock().into_future());
    fleet.pass(20 * MS).await;
    busy.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    first.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
}
