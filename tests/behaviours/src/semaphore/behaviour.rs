//! What a semaphore does when nobody waits and nothing goes wrong.

use redlatch::{Moment, Semaphore};

use super::{KEY, all_back, assert_all_back, set};
use crate::prelude::*;

behaviours! {
    left all_back;
    Cluster:
        permits_are_given_out_and_come_back;
    Single:
        a_guard_is_split_and_merged,
        forgotten_permits_are_gone_exactly_once,
        forgetting_counts_merged_permits_that_were_lost,
        unset_semaphore_is_a_typed_error,
        number_of_permits_can_be_changed,
        expired_semaphore_takes_its_permits_along,
        deletion_forgets_held_permits,
        holders_show_their_metadata,
        acquisitions_inside_of_a_scope_exclude_each_other;
}

/// Returns how many permits there are, are available, and are out.
async fn numbers(semaphore: &Semaphore) -> (u32, u32, u32) {
    let totals = semaphore.totals().await.unwrap();
    (totals.permits, totals.available, totals.acquired)
}

async fn permits_are_given_out_and_come_back(backend: &Backend, client: Client) {
    let semaphore = set(&client, 5).await;
    let one = semaphore.acquire().await.unwrap();
    let three = semaphore.acquire_many(3).await.unwrap();
    assert_eq!((one.num_permits(), three.num_permits()), (1, 3));
    assert_eq!(three.name(), "x");
    assert_eq!(three.state(), HoldState::Held);
    assert_eq!(numbers(&semaphore).await, (5, 1, 4));
    assert!(semaphore.try_acquire_many(2).await.unwrap().is_none());
    let none = semaphore.try_acquire_many_for(2, SECOND / 20).await;
    assert!(none.unwrap().is_none());
    // Nobody overtakes it while it is still in the queue.
    client.settled().await;
    let last = semaphore.try_acquire().await.unwrap().unwrap();
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    assert_eq!(last.release().await.unwrap(), Released::Free);
    assert_eq!(three.release().await.unwrap(), Released::Free);
    drop(one);
    client.settled().await;
    assert_eq!(numbers(&semaphore).await, (5, 5, 0));
    assert_eq!(backend.ttl(KEY), None, "it lasts until it is deleted");
}

async fn a_guard_is_split_and_merged(client: Client) {
    let semaphore = set(&client, 10).await;
    let mut guard = semaphore.acquire_many(6).await.unwrap();
    assert_fails(guard.split(7), ErrorKind::InvalidOption);
    let none = guard.split(0).unwrap();
    assert_eq!(none.num_permits(), 0);
    assert_eq!(none.valid_until(), Moment::FAR_FUTURE);
    assert_eq!(none.release().await.unwrap(), Released::Free);
    let two = guard.split(2).unwrap();
    let one = guard.split(1).unwrap();
    assert_eq!((guard.num_permits(), two.num_permits()), (3, 2));
    assert_eq!(client.tables().holds, 1, "it is one hold");
    assert_eq!(two.release().await.unwrap(), Released::StillHeld(4));
    assert_eq!(semaphore.available_permits().await.unwrap(), 6);
    let mut other = semaphore.acquire_many(4).await.unwrap();
    other.merge(one).unwrap();
    other.merge(guard).unwrap();
    assert_eq!(other.num_permits(), 8);
    assert_eq!(other.split(5).unwrap().num_permits(), 5);
    client.settled().await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 7);
    let stranger = client.semaphore("y").permits_if_unset(1);
    let stranger = other.merge(stranger.acquire().await.unwrap());
    assert_eq!(stranger.unwrap_err().name(), "y");
    assert_eq!(other.num_permits(), 3, "nothing was merged");
    let whole = other.split(3).unwrap();
    assert_eq!(other.num_permits(), 0);
    drop(other);
    assert!(whole.release().await.unwrap().is_clean());
}

async fn forgotten_permits_are_gone_exactly_once(backend: &Backend, client: Client) {
    let semaphore = set(&client, 9).await;
    let mut guard = semaphore.acquire_many(5).await.unwrap();
    guard.split(1).unwrap().forget().await.unwrap();
    assert_eq!(numbers(&semaphore).await, (8, 4, 4));
    guard.split(1).unwrap().release().await.unwrap();
    guard.forget().await.unwrap();
    assert_all_back(backend, &client, &semaphore).await;
    assert_eq!(semaphore.permits().await.unwrap(), 5);
    let late = semaphore.acquire().lease(SECOND).await.unwrap();
    backend.pass_lease(SECOND).await;
    let error = late.forget().await.unwrap_err();
    assert_eq!(error.loss(), Some(LossCause::Expired), "{error}");
    assert_eq!(semaphore.permits().await.unwrap(), 5, "it had come back");
}

async fn forgetting_counts_merged_permits_that_were_lost(backend: &Backend, client: Client) {
    let semaphore = set(&client, 9).await;
    let mut merged = semaphore.acquire_many(3).lease(60 * SECOND).await.unwrap();
    let short = semaphore.acquire_many(2).lease(SECOND).await.unwrap();
    merged.merge(short).unwrap();
    backend.pass_lease(SECOND).await;
    let error = merged.forget().await.unwrap_err();
    assert_eq!(error.loss(), Some(LossCause::Expired), "{error}");
    let counts = "permits forgotten: 3, lost before that: 2 ";
    assert!(error.to_string().contains(counts), "{error}");
    assert_eq!(semaphore.permits().await.unwrap(), 6);
}

// L35
async fn unset_semaphore_is_a_typed_error(backend: &Backend, client: Client) {
    let semaphore = client.semaphore("x");
    let unset = ErrorKind::NotSet;
    assert_fails(semaphore.acquire().await, unset);
    assert_fails(semaphore.try_acquire().await, unset);
    let error = semaphore.try_acquire_for(SECOND).await.unwrap_err();
    assert!(error.kind() == unset && error.is_not_executed(), "{error}");
    assert_fails(semaphore.permits().await, unset);
    assert_fails(semaphore.add_permits(1).await, unset);
    assert_fails(semaphore.drain_permits().await, unset);
    assert!(!semaphore.delete().await.unwrap());
    assert!(semaphore.holders().await.unwrap().is_empty());
    assert_tables_empty(&client).await;
    // What refuses copies of the requests may be there for a while.
    let is_set = || backend.hash(KEY).contains_key("s");
    assert!(!is_set());
    let named = semaphore.clone().permits_if_unset(2);
    assert_eq!(named.available_permits().await.unwrap(), 2);
    assert!(!is_set(), "looking sets nothing");
    let guard = named.acquire_many(2).await.unwrap();
    assert_eq!(semaphore.permits().await.unwrap(), 2);
    let other = client.semaphore("x").permits_if_unset(100);
    let taken = other.try_acquire().await.unwrap();
    assert!(taken.is_none(), "what is set counts");
    drop(guard);
}

async fn number_of_permits_can_be_changed(client: Client) {
    let semaphore = client.semaphore("x");
    assert!(semaphore.try_set_permits(3).await.unwrap());
    assert!(!semaphore.try_set_permits(4).await.unwrap());
    assert_eq!(semaphore.add_permits(2).await.unwrap(), 5);
    assert_eq!(semaphore.add_permits(-1).await.unwrap(), 4);
    assert_eq!(semaphore.add_permits(0).await.unwrap(), 4);
    assert_eq!(semaphore.drain_permits().await.unwrap(), 4);
    assert_eq!(semaphore.add_permits(4).await.unwrap(), 4);
    // Less than none, and too many.
    for change in [-5, i64::from(u32::MAX)] {
        let error = semaphore.add_permits(change).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange, "{change}");
        assert!(error.is_not_executed());
    }
    let guard = semaphore.acquire_many(4).await.unwrap();
    semaphore.set_permits(1).await.unwrap();
    assert_eq!(numbers(&semaphore).await, (1, 0, 4));
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_fails(semaphore.acquire_many(2).await, ErrorKind::OutOfRange);
    drop(guard);
    client.settled().await;
    assert!(semaphore.try_acquire().await.unwrap().is_some());
    semaphore.set_permits(0).await.unwrap();
    assert_fails(semaphore.acquire().await, ErrorKind::OutOfRange);
    semaphore.set_permits(u32::MAX).await.unwrap();
    let all = semaphore.acquire_many(u32::MAX).await.unwrap();
    assert_eq!(all.num_permits(), u32::MAX);
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
}

// L36
async fn expired_semaphore_takes_its_permits_along(backend: &Backend, client: Client) {
    let semaphore = client.semaphore("x");
    semaphore.set_permits(5).ttl(4 * SECOND).await.unwrap();
    let mut guard = semaphore.acquire_many(2).await.unwrap();
    assert!(guard.remaining() <= 4 * SECOND, "its lease is cut short");
    semaphore.add_permits(3).await.unwrap();
    semaphore.set_permits(6).await.unwrap();
    guard.split(1).unwrap().release().await.unwrap();
    let left = semaphore.totals().await.unwrap().remaining.unwrap();
    assert!(left <= 4 * SECOND, "no change drops it");
    let left = backend.ttl(KEY).unwrap();
    // The server's clock goes on while a script runs, so that a key may end somewhat later than its
    // record says.
    assert!(left < 5 * SECOND, "{left:?}");
    assert_fails(guard.extend(60 * SECOND).await, ErrorKind::OutOfRange);
    assert_eq!(guard.lost().await, LossCause::Expired);
    backend.pass(SECOND).await;
    assert_fails(semaphore.acquire().await, ErrorKind::NotSet);
    let keys = backend.keys();
    assert!(!keys.contains(&format!("{KEY}:d")), "{keys:?}");
    drop(guard);
    semaphore.set_permits(1).ttl(2 * SECOND).await.unwrap();
    semaphore.set_permits(1).for_ever().await.unwrap();
    assert_eq!(backend.ttl(KEY), None);
}

async fn deletion_forgets_held_permits(client: Client) {
    let semaphore = set(&client, 2).await;
    let guard = semaphore.acquire().renewed_lease(SECOND).await.unwrap();
    assert!(semaphore.delete().await.unwrap());
    assert!(!semaphore.delete().await.unwrap());
    assert_eq!(guard.lost().await, LossCause::Forgotten);
    semaphore.set_permits(2).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
}

async fn holders_show_their_metadata(client: Client) {
    let semaphore = set(&client, 9).await;
    let short = semaphore.acquire_many(2).lease(10 * SECOND).await.unwrap();
    let long = semaphore.acquire_many(3).lease(60 * SECOND).await.unwrap();
    let holders = semaphore.holders().await.unwrap();
    let permits: Vec<_> = holders.iter().map(|holder| holder.permits).collect();
    assert_eq!(permits, [2, 3], "those that end first in front");
    assert!(holders[0].remaining <= 10 * SECOND);
    let metadata = holders[0].metadata.as_ref().unwrap();
    assert_eq!(metadata.pid, std::process::id());
    drop((short, long));
    client.settled().await;
    assert!(semaphore.holders().await.unwrap().is_empty());
}

async fn acquisitions_inside_of_a_scope_exclude_each_other(client: Client) {
    let semaphore = client.semaphore("x").permits_if_unset(2);
    let owner = client.owner();
    let scope = owner.scope(async {
        let one = semaphore.acquire().await.unwrap();
        let two = semaphore.acquire().await.unwrap();
        assert_eq!(client.tables().holds, 2);
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        drop(one);
        client.settled().await;
        assert_eq!(two.state(), HoldState::Held);
    });
    scope.await;
}
