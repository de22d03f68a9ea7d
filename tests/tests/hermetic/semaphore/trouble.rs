//! A semaphore and a server that loses replies, stops, restarts and fills up.

use futures_util::{
    FutureExt, TryFutureExt,
    future::{BoxFuture, join_all},
};
use redlatch::{Error, ErrorKind, HoldState, LossCause};
use redlatch_behaviours::prelude::*;
use redlatch_behaviours::semaphore::{KEY, assert_all_back, queued};
use redlatch_embedded::{LostReply, calls};
use redlatch_lua::POOL;
use redlatch_tests::copies::Copies;

#[tokio::test(start_paused = true)]
async fn abandoned_attempt_is_undone_although_its_copies_come_late() {
    let (backend, [client]) = preloaded().await;
    let server = backend.embedded_server();
    let semaphore = client.semaphore("x");
    semaphore.set_permits(2).await.unwrap();
    let copies = Copies::of_script(server, POOL.acquire.text);
    server.drop_reply(calls::of_script(POOL.acquire.text), LostReply::Hangs);
    let ended = semaphore.try_acquire_many_for(2, 50 * MS).await;
    assert_fails(ended, ErrorKind::OutcomeUnknown);
    client.settled().await;
    assert_eq!(copies.deliver(), ["void"]);
    assert_all_back(&backend, &client, &semaphore).await;
}

// L31
#[tokio::test(start_paused = true)]
async fn a_dead_client_s_permits_come_back_after_its_lease() {
    let (backend, [survivor]) = embedded().await;
    let semaphore = survivor.semaphore("x").permits_if_unset(3);
    let dead = backend.client().await;
    let held = dead.semaphore("x").permits_if_unset(3);
    let guard = held.acquire_many(3).lease(2 * SECOND).await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    // Nothing speaks for it any more.
    std::mem::forget(guard);
    let started = Instant::now();
    let two = semaphore.acquire_many(2).await.unwrap();
    assert!(
        started.elapsed() <= 2 * SECOND + 100 * MS,
        "{:?}",
        started.elapsed()
    );
    drop(two);
    assert_all_back(&backend, &survivor, &semaphore).await;
}

// L12
#[tokio::test(start_paused = true)]
async fn loss_is_reported_before_the_server_gives_the_permits_away() {
    let (backend, [client]) = embedded().await;
    let server = backend.embedded_server();
    let semaphore = client.semaphore("x").permits_if_unset(1);
    let guard = semaphore.acquire().renewed_lease(2 * SECOND).await.unwrap();
    server.stop_for(5 * SECOND);
    assert_eq!(guard.lost().await, LossCause::Unreachable);
    let waiting = semaphore.acquire();
    drop(waiting.await.unwrap());
    drop(guard);
    assert_all_back(&backend, &client, &semaphore).await;
}

// L21
#[tokio::test(start_paused = true)]
async fn lost_notifications_cost_a_recheck_by_the_clock() {
    let (backend, [client]) = embedded().await;
    let semaphore = client.semaphore("x").permits_if_unset(2);
    let guard = semaphore.acquire_many(2).await.unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let semaphore = semaphore.clone();
            tokio::spawn(async move { drop(semaphore.acquire().await.unwrap()) })
        })
        .collect();
    queued(&semaphore, 4).await;
    backend.embedded_server().drop_messages(1);
    guard.release().await.unwrap();
    let started = Instant::now();
    finished(tasks).await;
    assert!(started.elapsed() <= 5 * SECOND, "{:?}", started.elapsed());
    assert_all_back(&backend, &client, &semaphore).await;
}

/// Places are lost, and no permit: whoever is granted without a place tells the others of its
/// client, who would else look when each became the first of them.
#[tokio::test(start_paused = true)]
async fn grant_without_a_place_makes_the_others_of_the_client_queue_again() {
    let (backend, [client, other]) = embedded().await;
    let semaphore = client.semaphore("x");
    semaphore.set_permits(1).await.unwrap();
    let guard = semaphore.acquire().await.unwrap();
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let theirs = other.semaphore("x");
            tokio::spawn(async move { theirs.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    queued(&semaphore, 10).await;
    let server = backend.embedded_server();
    assert!(server.delete_key(format!("{KEY}:q")) && server.delete_key(format!("{KEY}:l")));
    let start = Instant::now();
    guard.release().await.unwrap();
    for task in tasks {
        assert!(task.await.unwrap().is_clean());
    }
    assert!(start.elapsed() < 2_450 * MS, "{:?}", start.elapsed());
    assert_all_back(&backend, &client, &semaphore).await;
}

#[tokio::test(start_paused = true)]
async fn deletion_ends_all_waits_of_a_client_at_once() {
    for each in [false, true] {
        let (backend, [client, other]) = embedded().await;
        let semaphore = client.semaphore("x");
        let permits = client.permit_expirable_semaphore("x");
        let waits: Vec<BoxFuture<'static, Result<(), Error>>> = if each {
            permits.set_permits(1).await.unwrap();
            permits.acquire().lease(600 * SECOND).await.unwrap();
            let wait = |_| permits.acquire().into_future().map_ok(drop).boxed();
            (0..6).map(wait).collect()
        } else {
            semaphore.set_permits(1).await.unwrap();
            std::mem::forget(semaphore.acquire().await.unwrap());
            let wait = |_| semaphore.acquire().into_future().map_ok(drop).boxed();
            (0..6).map(wait).collect()
        };
        let waits = tokio::spawn(join_all(waits));
        backend.pass(SECOND).await;
        assert!(!waits.is_finished());
        let deleted = if each {
            other.permit_expirable_semaphore("x").delete().await
        } else {
            other.semaphore("x").delete().await
        };
        assert!(deleted.unwrap());
        let start = Instant::now();
        for ended in waits.await.unwrap() {
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::NotSet, "{each}");
        }
        let took = start.elapsed();
        assert!(took < 50 * MS, "{each}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn release_of_many_permits_serves_all_waiters_at_once() {
    for waiters in [17, 200] {
        let (backend, [client, other]) = embedded().await;
        let semaphore = client.semaphore("x").permits_if_unset(waiters);
        let all = semaphore.acquire_many(waiters).await.unwrap();
        let waits = join_all((0..waiters).map(|_| other.semaphore("x").acquire().into_future()));
        let served = tokio::spawn(waits);
        backend.pass(SECOND).await;
        all.release().await.unwrap();
        backend.pass(100 * MS).await;
        assert!(served.is_finished(), "{waiters} waiters");
        for permit in served.await.unwrap() {
            drop(permit.unwrap());
        }
    }
}
