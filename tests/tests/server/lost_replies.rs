//! Replies that never arrive although the server did what it was asked, and networks that swallow,
//! delay and cut.

use std::time::Instant;

use futures_util::future::join_all;
use redlatch::{Client, ErrorKind, Lock, Released};
use redlatch_lua::REENTRANT;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left, call, preload, registered},
    proxy::{Direction, Proxy, Then},
    server::ServerBinary,
};

redlatch_tests::on_every_server!(
    a_stalled_connection_is_replaced_in_time_for_short_leases,
    deadline_bounds_calls_into_a_black_hole,
    cut_connection_while_waiting_is_an_error_and_not_none,
    connection_that_ends_within_a_reply_is_replaced,
);

/// A client behind a proxy of its own, and a lock.
struct Rig {
    proxy: Proxy,
    client: Client,
    lock: Lock,
    name: String,
}

impl Rig {
    async fn new(backend: &Backend, then: Then) -> Self {
        let proxy = Proxy::start(backend.server().address());
        let client = Client::connect(&proxy.url()).await.unwrap();
        let name = format!("{then:?}");
        let lock = client.lock(&name);
        Self {
            proxy,
            client,
            lock,
            name,
        }
    }
}

/// Wrong, and known: a connection that swallows one reply is given up after a sixth of the lease
/// and a second for the PING, whatever the lease, so that no renewed lease of two seconds or less
/// outlives a single lost reply of a renewal.
// L13
async fn a_stalled_connection_is_replaced_in_time_for_short_leases(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    for lease in [2_000, 3_000] {
        let rig = Rig::new(&backend, Then::Stall).await;
        let lock = rig.lock.lock().renewed_lease(lease * MS);
        let renew = call(backend.server(), &REENTRANT.renew, &rig.name);
        drop(rig.proxy.drop_reply(renew, Then::Stall));
        let guard = lock.await.unwrap();
        let past = tokio::time::sleep(2 * lease * MS);
        assert!(guard.run(past).await.is_ok(), "a lease of {lease} ms");
        drop(guard);
        assert_nothing_left(&backend, &[&rig.client]).await;
    }
}

// L2, L4
async fn deadline_bounds_calls_into_a_black_hole(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let rig = Rig::new(&backend, Then::Stall).await;
    let kept = rig.client.lock("kept").lock().await.unwrap();
    rig.proxy.black_hole();
    let before = Instant::now();
    let attempts = join_all((0..10).map(|i| {
        let lock = rig.client.lock(format!("n{i}"));
        async move { lock.try_lock_for(400 * MS).await.map(drop) }
    }));
    for attempt in attempts.await {
        assert!(attempt.unwrap_err().is_transient());
    }
    assert!(before.elapsed() < 3 * SECOND, "{:?}", before.elapsed());
    rig.proxy.pass();
    let healed = Instant::now();
    let guard = rig.lock.lock().await.unwrap();
    println!("{binary}: served {:?} after a black hole", healed.elapsed());
    kept.check().unwrap();
    drop((guard, kept));
    assert_nothing_left(&backend, &[&rig.client]).await;
}

// L3
async fn cut_connection_while_waiting_is_an_error_and_not_none(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let rig = Rig::new(&backend, Then::Cut).await;
    let other = backend.client().await;
    let guard = other.lock(&rig.name).lock().await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = rig.lock.clone();
            tokio::spawn(async move { lock.try_lock_for(2 * SECOND).await.map(drop) })
        })
        .collect();
    registered(&backend, &rig.name).await;
    rig.proxy.refuse().await;
    rig.proxy.cut();
    for waiter in waiters {
        let error = waiter.await.unwrap().unwrap_err();
        assert!(error.is_transient(), "{error:?}");
    }
    rig.proxy.accept();
    drop(guard);
    assert_nothing_left(&backend, &[&rig.client, &other]).await;
}

/// Within the greeting, and within what comes after it.
// L2
async fn connection_that_ends_within_a_reply_is_replaced(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let proxy = Proxy::start(backend.server().address());
    for bytes in (1..=160).step_by(13) {
        proxy.cut_after(Direction::ToClient, bytes);
        match Client::connect(&proxy.url()).await {
            Ok(client) => client.close_now().await,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{bytes}: {error:?}"),
        }
        proxy.withdraw_orders();
    }
    let client = Client::connect(&proxy.url()).await.unwrap();
    for bytes in (1..=160).step_by(40) {
        // The new connection is cut as well, within its greeting.
        proxy.cut();
        proxy.cut_after(Direction::ToClient, bytes);
        let guard = client.lock("x").lock().await.unwrap();
        proxy.cut_after(Direction::ToClient, 1 + bytes % 7);
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
    assert_nothing_left(&backend, &[&client]).await;
}
