//! A fair lock and a server that loses replies, messages and data.

use redlatch_behaviours::fair::support::{Grants, queued, queued_as};
use redlatch_lua::FAIR;

use crate::prelude::*;

/// However many waiters of a client have lost their places, they do not all ask at once, and each
/// asks once.
#[tokio::test(start_paused = true)]
async fn waiters_that_lost_their_places_ask_at_the_rate_of_their_client() {
    const MANY: u64 = 1_500;
    let (backend, clients) = preloaded::<2>().await;
    let (lock, theirs) = (clients[0].fair_lock("x"), clients[1].fair_lock("x"));
    let guard = lock.lock().await.unwrap();
    let grants = Grants::default();
    let mut tasks = Vec::new();
    for who in 0..usize::try_from(MANY).unwrap() {
        tasks.push(queued_as(who, &theirs, &grants).await);
    }
    backend.command(&["FLUSHALL"]);
    backend.preload();
    drop(guard);
    let guard = lock.try_lock().await.unwrap().unwrap();
    let before = backend.script_calls();
    let (mut last, mut most) = (before, 0);
    for _ in 0..90 {
        backend.pass(50 * MS).await;
        let now = backend.script_calls();
        most = most.max(now - last);
        last = now;
    }
    assert_eq!(lock.info().await.unwrap().unwrap().waiters, MANY);
    let asked = last - before;
    println!("{MANY} asked again with {asked} commands, {most} of them in 50 ms at most");
    assert!(most <= 60, "{most} commands in 50 ms");
    // The looks of the first of the line and renewals come on top.
    assert!(asked <= MANY + 10, "{asked} commands");
    guard.release().await.unwrap();
    finished(tasks).await;
    assert!(grants.list().is_sorted(), "they queue again in their order");
    assert_tables_empty(&clients[1]).await;
}

/// Very many waiters that ask for new places delay no look for another name.
#[tokio::test(start_paused = true)]
async fn waiters_that_lost_their_places_delay_no_other_name() {
    let (backend, [client, theirs]) = preloaded().await;
    let (lock, grants) = (theirs.fair_lock("x"), Grants::default());
    let guard = client.fair_lock("x").lock().await.unwrap();
    let mut tasks = Vec::new();
    for who in 0..3_000 {
        tasks.push(queued_as(who, &lock, &grants).await);
    }
    backend.command(&["FLUSHALL"]);
    backend.preload();
    drop(guard);
    let guard = client.fair_lock("x").try_lock().await.unwrap().unwrap();
    backend.pass(2_500 * MS).await;
    let waiters = client.fair_lock("x").info().await.unwrap().unwrap().waiters;
    assert!((1..2_500).contains(&waiters), "they ask now: {waiters}");
    let dead = client.lock("y").lock().lease(100 * MS).await.unwrap();
    std::mem::forget(dead);
    let start = Instant::now();
    drop(theirs.lock("y").lock().await.unwrap());
    assert!(start.elapsed() <= 110 * MS, "{:?}", start.elapsed());
    drop((guard, tasks));
}

/// A grant whose answer was lost is no reason to think that places were.
#[tokio::test(start_paused = true)]
async fn repeated_answer_of_a_grant_makes_nobody_queue_again() {
    let (backend, clients) = preloaded::<2>().await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let first = queued(&clients[1].fair_lock("x")).await;
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(queued(&clients[1].fair_lock("x")).await);
    }
    lose_reply(&backend, FAIR.exclusive.acquire.text, LostReply::Cuts);
    let before = backend.script_calls();
    guard.release().await.unwrap();
    let held = first.await.unwrap();
    backend.pass(100 * MS).await;
    let calls = backend.script_calls() - before;
    assert!(calls <= 4, "{calls} commands for a release and a grant");
    held.release().await.unwrap();
    for other in others {
        other.await.unwrap().release().await.unwrap();
    }
}

/// The first of a client's waiters hears what is said to any of them also while it asks, by one
/// listener all the time.
#[tokio::test(start_paused = true)]
async fn first_waiter_of_a_client_stays_subscribed_while_it_asks() {
    let (backend, clients) = preloaded::<2>().await;
    let server = backend.embedded_server();
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let waiter = queued(&clients[1].fair_lock("x")).await;
    let listeners = || clients[1].tables().listeners;
    let idle = listeners();
    let mut samples = Vec::new();
    for _ in 0..30 {
        // Its look gets no answer for longer than it waits between two looks.
        server.stop_for(250 * MS);
        for _ in 0..5 {
            backend.pass(60 * MS).await;
            samples.push(listeners());
        }
    }
    assert!(samples.iter().all(|&now| now == idle), "{samples:?}");
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
    assert_tables_empty(&clients[1]).await;
}

/// No message comes through: each hand-over costs one look of the next client's first waiter, and
/// none is lost.
#[tokio::test(start_paused = true)]
async fn hand_overs_without_messages_take_one_recheck_each() {
    let (backend, clients) = preloaded::<4>().await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let grants = Grants::default();
    let mut tasks = Vec::new();
    for who in 0..24 {
        // A client's later waiters stand before and behind those of others.
        let lock = clients[1 + who * who / 3 % 3].fair_lock("x");
        let (waiting, grants) = (queued(&lock).await, grants.clone());
        tasks.push(tokio::spawn(async move {
            let guard = waiting.await.unwrap();
            grants.note(who);
            let at = Instant::now();
            guard.release().await.unwrap();
            at
        }));
    }
    backend.embedded_server().drop_messages(usize::MAX);
    let mut last = Instant::now();
    guard.release().await.unwrap();
    let mut longest = Duration::ZERO;
    for task in tasks {
        let at = task.await.unwrap();
        longest = longest.max(at - last);
        last = at;
    }
    println!("the longest hand-over without messages: {longest:?}");
    assert!(longest <= 2_405 * MS, "{longest:?}");
    assert_eq!(grants.list(), (0..24).collect::<Vec<_>>());
    assert_all_empty(&clients).await;
}
