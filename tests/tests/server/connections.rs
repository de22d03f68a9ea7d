//! Connections that are killed, scripts and data that go, writes that are paused.

use std::time::Instant;

use redlatch::{LossCause, Released};
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left, key, registered, waiting},
    server::{ClientType, ServerBinary},
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(
    killed_connection_loses_no_hold_and_no_waiter,
    a_killed_subscription_wakes_its_waiters_again,
    flushed_scripts_are_loaded_again,
    next_renewal_reports_lost_data,
    next_renewal_reports_an_evicted_hold,
    pause_of_writes_delays_and_loses_nothing,
);

// L3, L7
async fn killed_connection_loses_no_hold_and_no_waiter(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().renewed_lease(4 * SECOND).await.unwrap();
    let waiter = waiting(b.lock("x"));
    registered(&backend, "x").await;
    let started = Instant::now();
    while started.elapsed() < 5 * SECOND {
        server.client_kill(ClientType::Normal);
        server.client_kill(ClientType::PubSub);
        backend.pass(120 * MS).await;
        guard.check().unwrap();
        assert!(!waiter.is_finished());
    }
    server.client_kill(ClientType::Normal);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    let released = Instant::now();
    drop(waiter.await.unwrap());
    println!(
        "{binary}: served {:?} after the release",
        released.elapsed()
    );
    // Re-connecting takes up to a second after many failures, a look at most 2.4 s.
    assert!(released.elapsed() < 4 * SECOND + 10 * SECOND);
    assert_nothing_left(&backend, &[&a, &b]).await;
}

// L7
async fn a_killed_subscription_wakes_its_waiters_again(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    for _ in 0..5 {
        let guard = a.lock("x").lock().await.unwrap();
        let waiter = waiting(b.lock("x"));
        registered(&backend, "x").await;
        assert!(server.client_kill(ClientType::PubSub) >= 1);
        // What is published while nobody listens is lost.
        guard.release().await.unwrap();
        let released = Instant::now();
        drop(waiter.await.unwrap());
        assert!(
            released.elapsed() < 2_400 * MS + 10 * SECOND,
            "{:?}",
            released.elapsed()
        );
    }
    eventually("the subscriptions to come back", GENEROUS, async || {
        let channels = server.command(&["PUBSUB", "CHANNELS"]).array();
        channels.len() == 2
    })
    .await;
    assert_nothing_left(&backend, &[&a, &b]).await;
}

// L44
async fn flushed_scripts_are_loaded_again(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let client = backend.client().await;
    let other = backend.client().await;
    let lock = client.lock("x");
    server.script_flush();
    let guard = lock.lock().renewed_lease(SECOND).await.unwrap();
    server.script_flush();
    let inner = lock.lock().owner(guard.owner()).await.unwrap();
    assert_eq!(guard.hold_count(), 2);
    let mut many = Vec::new();
    for i in 0..40 {
        let lock = client.lock(format!("n{i}"));
        many.push(lock.lock().renewed_lease(SECOND).await.unwrap());
    }
    // Renewals go in pipelines, and every one of them finds no script.
    let started = Instant::now();
    while started.elapsed() < 1_500 * MS {
        server.script_flush();
        backend.pass(5 * MS).await;
    }
    for guard in many.iter().chain([&guard, &inner]) {
        guard.check().unwrap();
    }
    server.script_flush();
    guard.extend(5 * SECOND).await.unwrap();
    server.script_flush();
    assert!(other.lock("x").try_lock().await.unwrap().is_none());
    server.script_flush();
    assert_eq!(lock.info().await.unwrap().unwrap().count, 2);
    server.script_flush();
    assert_eq!(inner.release().await.unwrap(), Released::StillHeld(1));
    server.script_flush();
    drop(guard);
    drop(many);
    client.settled().await;
    let guard = lock.lock().await.unwrap();
    server.script_flush();
    assert!(lock.force_release().await.unwrap());
    drop(guard);
    assert_nothing_left(&backend, &[&client, &other]).await;
}

// L14
async fn next_renewal_reports_lost_data(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let client = backend.client().await;
    for flush in [true, false] {
        let guard = client
            .lock("x")
            .lock()
            .renewed_lease(3 * SECOND)
            .await
            .unwrap();
        let gone = Instant::now();
        if flush {
            server.flushall();
        } else {
            server.command(&["DEL", &key("x")]).unwrap();
        }
        assert_eq!(guard.lost().await, LossCause::Forgotten);
        let told = gone.elapsed();
        println!("{binary}: told {told:?} after the data went, lease 3 s");
        assert!(told < SECOND + 500 * MS, "{told:?}");
        assert!(
            !backend.keys().contains(&key("x")),
            "renewal creates nothing"
        );
        assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    }
    assert_nothing_left(&backend, &[&client]).await;
}

/// With any policy but `noeviction`, a server that is full makes room for others with our holds.
// L14
async fn next_renewal_reports_an_evicted_hold(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    server.config_set("maxmemory-policy", "allkeys-random");
    let client = backend.client().await;
    let lock = client.lock("x").lock().renewed_lease(3 * SECOND);
    let guard = lock.await.unwrap();
    server.config_set("maxmemory", "1");
    eventually("the hold to be evicted", GENEROUS, async || {
        // Refused or not: the server makes room before it says so.
        server.command(&["SET", "filler", "x"]);
        !backend.keys().contains(&key("x"))
    })
    .await;
    server.config_set("maxmemory", "0");
    assert_eq!(guard.lost().await, LossCause::Forgotten);
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    server.command(&["DEL", "filler"]).unwrap();
    assert_nothing_left(&backend, &[&client]).await;
}

// L4, L13
async fn pause_of_writes_delays_and_loses_nothing(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let server = backend.server();
    let (a, b) = (backend.client().await, backend.client().await);
    let guard = a.lock("x").lock().renewed_lease(3 * SECOND).await.unwrap();
    let paused = Instant::now();
    server
        .command(&["CLIENT", "PAUSE", "1200", "WRITE"])
        .unwrap();
    let short = b.lock("y").try_lock_for(200 * MS).await.map(drop);
    let error = short.unwrap_err();
    assert!(
        error.is_transient(),
        "no answer is no contention: {error:?}"
    );
    assert!(paused.elapsed() < 1_100 * MS, "{:?}", paused.elapsed());
    let y = b.lock("y").lock().await.unwrap();
    assert!(paused.elapsed() >= 1_100 * MS, "{:?}", paused.elapsed());
    assert_eq!(b.lock("y").hold_count(y.owner()).await.unwrap(), 1);
    y.check().unwrap();
    let until = Instant::now() + 2 * SECOND;
    while Instant::now() < until {
        guard.check().unwrap();
        backend.pass(20 * MS).await;
    }
    drop((guard, y));
    assert_nothing_left(&backend, &[&a, &b]).await;
}
