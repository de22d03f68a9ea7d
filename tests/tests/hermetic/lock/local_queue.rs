//! Waiters of one process for one name: their local queue moves on, whatever the server does.

use crate::prelude::*;

#[tokio::test(start_paused = true)]
async fn waiters_of_one_owner_do_not_deadlock_around_another_waiter() {
    for foreign in [false, true] {
        let (backend, [client, other]) = embedded().await;
        let held = match foreign {
            true => other.lock("x").lock().await.unwrap(),
            false => client.lock("x").lock().await.unwrap(),
        };
        let (lock, owner) = (client.lock("x"), client.owner());
        let first = tokio::spawn(lock.lock().owner(&owner).into_future());
        backend.pass(MS).await;
        let stranger = tokio::spawn(lock.lock().into_future());
        backend.pass(MS).await;
        let second = tokio::spawn(lock.lock().owner(&owner).into_future());
        backend.pass(MS).await;
        held.release().await.unwrap();
        // Neither lets go before both have it.
        let both = timeout(SECOND, join_all([first, second])).await;
        let both = both.expect("no deadlock").into_iter();
        let both: Vec<_> = both.map(|guard| guard.unwrap().unwrap()).collect();
        assert!(!stranger.is_finished());
        drop(both);
        drop(timeout(SECOND, stranger).await.unwrap().unwrap().unwrap());
        assert_tables_empty(&client).await;
    }
}

/// A future that is polled a few times and never again delays the others, at whatever step it
/// stands, by a request and the time that the next waiter gives it.
#[tokio::test(start_paused = true)]
async fn waiter_that_is_neglected_at_any_step_does_not_stop_the_others() {
    for (what, lock) in LOCKS {
        for polls in 1..8 {
            let (backend, [other, client]) = embedded().await;
            let held = lock(&other, "x").lock().await.unwrap();
            let mut stuck = Box::pin(lock(&client, "x").lock().into_future());
            if polled(&backend, &mut stuck, polls).await.is_some() {
                continue;
            }
            let next = tokio::spawn(lock(&client, "x").lock().into_future());
            backend.pass(MS).await;
            held.release().await.unwrap();
            let start = Instant::now();
            let guard = timeout(20 * SECOND, next).await.unwrap().unwrap().unwrap();
            let took = start.elapsed();
            assert!(took <= 7_500 * MS, "{what}, {polls} polls: {took:?}");
            drop((guard, stuck));
            client.settled().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn owners_with_several_waiters_each_do_not_deadlock() {
    for seed in 0..30 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (backend, [client]) = embedded().await;
        let lock = client.lock("x");
        let held = lock.lock().await.unwrap();
        let mut wishes: Vec<_> = (0..4)
            .flat_map(|owner| vec![owner; rng.usize(1..4)])
            .collect();
        rng.shuffle(&mut wishes);
        let owners: Vec<_> = (0..4).map(|_| client.owner()).collect();
        let mut waiting: [Vec<_>; 4] = Default::default();
        for wish in wishes {
            let request = lock.lock().owner(&owners[wish]);
            waiting[wish].push(tokio::spawn(request.into_future()));
            if rng.bool() {
                backend.pass(MS).await;
            }
        }
        let owners = waiting.map(|wishes| {
            tokio::spawn(async move {
                // All guards of the owner at once, or it never lets go.
                let guards = finished(wishes).await;
                assert!(guards.iter().all(Result::is_ok));
            })
        });
        drop(held);
        let done = timeout(20 * SECOND, join_all(owners)).await;
        assert!(done.is_ok(), "blocked, seed {seed}");
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_behind_an_unanswered_caller_gets_an_error_and_not_none() {
    let (backend, [client]) = embedded().await;
    backend.embedded_server().stop();
    let lock = client.lock("x");
    let first = tokio::spawn(lock.lock().into_future());
    backend.pass(10 * MS).await;
    let start = Instant::now();
    let second = lock.try_lock_for(300 * MS).await;
    let error = second.map(|guard| guard.is_some()).unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(start.elapsed(), 300 * MS);
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn silent_server_fails_all_waiters_of_a_client_at_once() {
    for held in [false, true] {
        let (backend, [client, other]) = embedded().await;
        let patience = 10 * SECOND;
        let _guard = match held {
            true => Some(other.lock("x").lock().await.unwrap()),
            false => None,
        };
        let lock = client.lock("x");
        if !held {
            backend.embedded_server().stop();
        }
        let waiters = spawned(10, |_| lock.lock().into_future());
        backend.pass(50 * MS).await;
        backend.embedded_server().stop();
        let start = Instant::now();
        for (i, waiter) in waiters.into_iter().enumerate() {
            let error = waiter.await.unwrap().map(drop).unwrap_err();
            assert!(error.is_transient(), "{error:?}");
            // A waiter that was told "busy" notices the silence with its next look, 2.4 s later at
            // most.
            let slack = if held { 3_500 * MS } else { SECOND };
            let took = start.elapsed();
            assert!(took <= patience + slack, "waiter {i} failed after {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_enters_at_once_when_its_owner_acquires_otherwise() {
    let (backend, [client, other]) = embedded().await;
    let held = other.lock("x").lock().await.unwrap();
    let (lock, owner) = (client.lock("x"), client.owner());
    let waiter = tokio::spawn(lock.lock().owner(&owner).into_future());
    backend.pass(MS).await;
    // No message says that the name is free, and its owner takes it without a slot in the local
    // queue.
    backend.embedded_server().drop_messages(1);
    held.release().await.unwrap();
    let held = lock.try_lock().owner(&owner).await.unwrap().unwrap();
    let start = Instant::now();
    let joined = timeout(SECOND, waiter).await;
    let joined = joined.expect("it is told").unwrap().unwrap();
    assert!(start.elapsed() < 100 * MS, "after {:?}", start.elapsed());
    assert_eq!(joined.hold_count(), 2);
    drop((held, joined));
}
