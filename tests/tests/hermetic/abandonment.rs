//! The note that the holder before has died reaches the next one who gets a guard, also past an
//! acquisition that was granted and dropped.

use std::mem;

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn note_about_a_dead_holder_is_passed_on() {
    // Readers get the note of writers.
    for (what, lock) in LOCKS.into_iter().take(3) {
        let ways = [(false, false), (false, true), (true, false)];
        for (polls, (noted, over)) in (1..20).flat_map(|polls| ways.map(|way| (polls, way))) {
            let (backend, [first, second, third]) = embedded().await;
            let dead = lock(&first, "x").lock().lease(50 * MS).await.unwrap();
            mem::forget(dead);
            backend.pass(60 * MS).await;

            let mut acquire = lock(&second, "x").lock().lease(60 * MS);
            if noted {
                // The guard is there before the caller gets it.
                acquire = acquire.note("why");
            }
            let mut dropped = Box::pin(acquire.into_future());
            let done = polled(&backend, &mut dropped, polls).await;
            if let Some(guard) = done {
                assert!(polls > 1 && guard.unwrap().is_after_abandonment(), "{what}");
                if noted {
                    break;
                }
                continue;
            }
            if over {
                // The grant ends by itself before it is undone.
                second.close_now().await;
                backend.pass(100 * MS).await;
            }
            drop(dropped);
            second.settled().await;

            let told = async || {
                let guard = lock(&third, "x").lock().await.unwrap();
                guard.is_after_abandonment()
            };
            assert!(told().await, "{what} after {polls} polls, {noted} {over}");
            assert!(!told().await, "{what}: once");
        }
    }
}

/// The members that a multi-lock and a red-lock have taken and give back had no holder.
#[tokio::test(start_paused = true)]
async fn note_is_passed_on_by_locks_that_give_members_back() {
    let (backend, [first, second, third]) = embedded().await;
    let dies = async |name: &str| {
        mem::forget(first.lock(name).lock().lease(50 * MS).await.unwrap());
        backend.pass(60 * MS).await;
    };
    dies("a").await;
    let _busy = first.lock("b").lock().await.unwrap();
    let members = [second.lock("a"), second.lock("b")];
    let multi = second.multi_lock(&[&members[0], &members[1]]);
    assert!(multi.try_lock_for(10 * MS).await.unwrap().is_none());
    second.settled().await;
    let told = async |name: &str| {
        let guard = third.lock(name).lock().await.unwrap();
        guard.is_after_abandonment()
    };
    assert!(told("a").await && !told("a").await);
    dies("a").await;
    // A client that closes gives back what its locks hold meanwhile.
    let waits = tokio::spawn(multi.lock().into_future());
    backend.pass(20 * MS).await;
    second.close_now().await;
    assert!(waits.await.unwrap().is_err());
    assert!(told("a").await && !told("a").await);
    dies("a").await;
    let second = backend.client().await;
    let free = second.multi_lock(&[&second.lock("a"), &second.lock("c")]);
    let guard = free.lock().await.unwrap();
    assert!(guard.is_after_abandonment());
    drop(guard);
    second.settled().await;
    assert!(!told("a").await, "the holder has let go");
}
