//! Hand-offs within a process: the next local waiter asks right behind the release, and no waiter
//! of another client loses its turn by that.

use std::sync::atomic::Ordering::Relaxed;

use redlatch_lua::REENTRANT;

use crate::prelude::*;

type Waiter = JoinHandle<Result<LockGuard, Error>>;

/// A held lock and so many waiters of its client, in order; the client knows that nobody else
/// waits.
async fn waiters(count: usize) -> (Backend, Client, LockGuard, Vec<Waiter>) {
    let (backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let before = lock.lock().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..=count {
        waiters.push(tokio::spawn(lock.lock().into_future()));
        backend.pass(MS).await;
    }
    before.release().await.unwrap();
    let guard = granted(&mut waiters).await;
    backend.pass(MS).await;
    (backend, client, guard, waiters)
}

/// What the first of them was granted, without waiting for any clock.
async fn granted(waiters: &mut Vec<Waiter>) -> LockGuard {
    let start = Instant::now();
    let guard = timeout(SECOND, waiters.remove(0)).await;
    let guard = guard.expect("it is told").unwrap().unwrap();
    assert!(start.elapsed() < 100 * MS, "after {:?}", start.elapsed());
    guard
}

/// Checks that each of them has its turn.
async fn all_granted(mut waiters: Vec<Waiter>) {
    while !waiters.is_empty() {
        drop(granted(&mut waiters).await);
    }
}

#[tokio::test(start_paused = true)]
async fn hand_over_within_a_process_sends_no_message() {
    for dropped in [false, true] {
        let (backend, client, mut guard, mut waiters) = waiters(12).await;
        let published = backend.embedded_server().command_count("publish");
        let calls = backend.script_calls();
        let mut tokens = vec![guard.token()];
        while !waiters.is_empty() {
            if dropped {
                drop(guard);
            } else {
                assert_eq!(guard.release().await.unwrap(), Released::Free);
            }
            guard = granted(&mut waiters).await;
            tokens.push(guard.token());
            backend.pass(MS).await;
        }
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
        let after = backend.embedded_server().command_count("publish");
        assert_eq!(after, published, "nobody was called, dropped: {dropped}");
        // Each asks twice and is released once; but the first was busy before, and the last is not
        // released.
        let calls = backend.script_calls() - calls;
        assert!(dropped || calls == 12 * 3 - 1, "{calls}");
        guard.release().await.unwrap();
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_of_another_client_is_not_starved_by_local_hand_overs() {
    for tasks in [1, 2, 5, 20] {
        let (_backend, [a, b]) = embedded().await;
        let grants = Arc::new(AtomicU64::new(0));
        let busy = spawned(tasks, |_| {
            take_again_and_again(a.clone(), Arc::clone(&grants))
        });
        sleep(50 * MS).await;
        assert!(grants.load(Relaxed) > 20);
        for _ in 0..20 {
            let before = grants.load(Relaxed);
            let guard = timeout(SECOND, b.lock("x").lock()).await;
            let guard = guard.expect("it has its turn").unwrap();
            let passed = grants.load(Relaxed) - before;
            assert!(passed <= 3, "{tasks} tasks: {passed} went before");
            guard.release().await.unwrap();
            sleep(5 * MS).await;
        }
        busy.iter().for_each(JoinHandle::abort);
    }
}

async fn take_again_and_again(client: Client, grants: Arc<AtomicU64>) {
    loop {
        let guard = client.lock("x").lock().await.unwrap();
        grants.fetch_add(1, Relaxed);
        sleep(MS).await;
        guard.release().await.unwrap();
        // Whoever asks again at once may be faster than anybody who is called.
        sleep(MS).await;
    }
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_release_or_next_waiter_passes_the_turn_on() {
    for (polls, of_release) in (0..8).flat_map(|polls| [(polls, false), (polls, true)]) {
        let (backend, client, guard, mut waiters) = waiters(3).await;
        let release = tokio::spawn(guard.release());
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        if of_release {
            release.abort();
            drop(release.await);
        } else {
            let next = waiters.remove(0);
            next.abort();
            drop(next.await);
            assert_eq!(release.await.unwrap().unwrap(), Released::Free);
        }
        all_granted(waiters).await;
        assert_tables_empty(&client).await;
        backend.assert_only_counters_left();
    }
}

// L1
#[tokio::test(start_paused = true)]
async fn release_with_a_lost_reply_lets_the_next_in() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let (backend, client, guard, mut waiters) = waiters(3).await;
        lose_reply(&backend, REENTRANT.release.text, how);
        let release = tokio::spawn(guard.release());
        let guard = timeout(5 * SECOND, waiters.remove(0)).await;
        let guard = guard.expect("it is told").unwrap().unwrap();
        assert_eq!(release.await.unwrap().unwrap(), Released::Free);
        // The second copy of the release came while others waited: nobody is forgotten by it.
        drop(guard);
        all_granted(waiters).await;
        assert_tables_empty(&client).await;
    }
}

// L1
#[tokio::test(start_paused = true)]
async fn repeated_release_lets_the_next_in() {
    for dropped in [false, true] {
        let (backend, client, guard, waiters) = waiters(3).await;
        let loading = "LOADING the server is not ready";
        refuse_next(&backend, REENTRANT.release.text, loading);
        // The next waiter asks behind it, finds the name held, and registers at the server again.
        // The second try of the release removes that entry.
        if dropped {
            drop(guard);
        } else {
            assert_eq!(guard.release().await.unwrap(), Released::Free);
        }
        all_granted(waiters).await;
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn closing_client_leaves_the_name_to_others() {
    for polls in 0..8 {
        let (backend, client, guard, _waiters) = waiters(3).await;
        let other = backend.client().await;
        let mut elsewhere = vec![tokio::spawn(other.lock("x").lock().into_future())];
        backend.pass(MS).await;
        let release = tokio::spawn(guard.release());
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        let closed = tokio::spawn(async move { client.close_now().await });
        drop(granted(&mut elsewhere).await);
        drop(release.await);
        drop(closed.await);
        assert_tables_empty(&other).await;
    }
}
