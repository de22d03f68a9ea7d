//! Replies that never arrive although the server did what it was asked, and networks that swallow,
//! delay and cut.

use std::{sync::Arc, time::Instant};

use futures_util::future::join_all;
use redlatch::{Client, ErrorKind, HoldState, Lock, Released};
use redlatch_lua::REENTRANT;
use redlatch_tests::{
    backend::Backend,
    fixture::{MS, SECOND, assert_nothing_left, call, preload, registered, waiting},
    proxy::{Direction, Flow, Proxy, Then},
    server::ServerBinary,
    split::SplitTransport,
    wait::{GENEROUS, eventually},
};

redlatch_tests::on_every_server!(
    an_acquire_whose_reply_is_lost_counts_once,
    a_re_entry_whose_reply_is_lost_counts_once,
    release_whose_reply_is_lost_takes_effect,
    a_renewal_whose_reply_is_lost_is_no_loss,
    a_stalled_connection_is_replaced_in_time_for_short_leases,
    reply_after_the_lease_is_no_grant,
    deadline_bounds_calls_into_a_black_hole,
    cut_connection_while_waiting_is_an_error_and_not_none,
    waiter_survives_a_short_cut,
    lost_message_costs_one_recheck,
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

/// Runs `scenario` with the connection stalled and with it cut, at the same time.
async fn both_ways(binary: ServerBinary, scenario: impl AsyncFn(&Backend, &Rig, Then)) {
    let backend = Backend::real(&binary);
    preload(backend.server());
    let runs = [Then::Stall, Then::Cut].map(async |then| {
        let rig = Rig::new(&backend, then).await;
        scenario(&backend, &rig, then).await;
        rig.client
    });
    let clients = join_all(runs).await;
    assert_nothing_left(&backend, &clients.iter().collect::<Vec<_>>()).await;
}

// L1
async fn an_acquire_whose_reply_is_lost_counts_once(binary: ServerBinary) {
    both_ways(binary, async |backend, rig, then| {
        let acquire = call(backend.server(), &REENTRANT.acquire, &rig.name);
        let lost = rig.proxy.drop_reply(acquire, then);
        let started = Instant::now();
        let guard = rig.lock.lock().await.unwrap();
        println!("{then:?}: granted again after {:?}", started.elapsed());
        let first = lost.answered().await;
        assert!(said(first.reply(), "granted"), "{first:?}");
        assert_eq!(rig.lock.hold_count(guard.owner()).await.unwrap(), 1);
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        assert!(!rig.lock.is_locked().await.unwrap());
        let copy = first.copy().deliver().await.unwrap();
        assert!(said(&copy, "void"), "{}", String::from_utf8_lossy(&copy));
        assert!(!rig.lock.is_locked().await.unwrap());
    })
    .await;
}

// L1
async fn a_re_entry_whose_reply_is_lost_counts_once(binary: ServerBinary) {
    both_ways(binary, async |backend, rig, then| {
        let outer = rig.lock.lock().await.unwrap();
        let acquire = call(backend.server(), &REENTRANT.acquire, &rig.name);
        let lost = rig.proxy.drop_reply(acquire, then);
        let inner = rig.lock.lock().owner(outer.owner()).await.unwrap();
        assert!(said(lost.answered().await.reply(), "granted"));
        assert_eq!(rig.lock.hold_count(outer.owner()).await.unwrap(), 2);
        assert_eq!(outer.token(), inner.token());
        assert_eq!(inner.release().await.unwrap(), Released::StillHeld(1));
        assert_eq!(rig.lock.hold_count(outer.owner()).await.unwrap(), 1);
        assert_eq!(outer.release().await.unwrap(), Released::Free);
    })
    .await;
}

// L1
async fn release_whose_reply_is_lost_takes_effect(binary: ServerBinary) {
    both_ways(binary, async |backend, rig, then| {
        let outer = rig.lock.lock().await.unwrap();
        let inner = rig.lock.lock().owner(outer.owner()).await.unwrap();
        let release = || call(backend.server(), &REENTRANT.release, &rig.name);
        let lost = rig.proxy.drop_reply(release(), then);
        let left = inner.release().await.unwrap();
        assert!(said(lost.answered().await.reply(), "released"));
        assert_eq!(left, Released::StillHeld(1));
        assert_eq!(rig.lock.hold_count(outer.owner()).await.unwrap(), 1);
        let lost = rig.proxy.drop_reply(release(), then);
        assert_eq!(outer.release().await.unwrap(), Released::Free);
        assert!(said(lost.answered().await.reply(), "released"));
        assert!(!rig.lock.is_locked().await.unwrap());
    })
    .await;
}

// L13
async fn a_renewal_whose_reply_is_lost_is_no_loss(binary: ServerBinary) {
    both_ways(binary, async |backend, rig, then| {
        // A connection that stalls is noticed after a second without an answer and another without
        // a PONG.
        let lease = rig.lock.lock().renewed_lease(6 * SECOND);
        let renew = call(backend.server(), &REENTRANT.renew, &rig.name);
        let lost = rig.proxy.drop_reply(renew, then);
        let guard = lease.await.unwrap();
        let held = Instant::now();
        assert!(said(lost.answered().await.reply(), "renewed"));
        let state = async |wanted| {
            eventually("the hold's state to change", GENEROUS, async || {
                guard.check().unwrap();
                guard.state() == wanted
            })
            .await;
        };
        state(HoldState::Unknown).await;
        let unknown = held.elapsed();
        state(HoldState::Held).await;
        println!(
            "{then:?}: unknown after {unknown:?}, held again after {:?}",
            held.elapsed()
        );
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    })
    .await;
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

// L9
async fn reply_after_the_lease_is_no_grant(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let rig = Rig::new(&backend, Then::Stall).await;
    for delay in [40, 150] {
        rig.proxy.delay(delay * MS);
        let before = Instant::now();
        let lease = 60 * MS;
        let error = rig.lock.try_lock_for(SECOND).lease(lease).await.map(drop);
        assert!(error.unwrap_err().is_transient());
        assert!(before.elapsed() < 3 * SECOND, "{:?}", before.elapsed());
        rig.proxy.pass();
        let guard = rig.lock.lock().await.unwrap();
        assert_eq!(rig.lock.hold_count(guard.owner()).await.unwrap(), 1);
    }
    assert_nothing_left(&backend, &[&rig.client]).await;
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

// L3, L7
async fn waiter_survives_a_short_cut(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let rig = Rig::new(&backend, Then::Cut).await;
    let other = backend.client().await;
    let guard = other.lock(&rig.name).lock().await.unwrap();
    let waiter = waiting(rig.lock.clone());
    registered(&backend, &rig.name).await;
    rig.proxy.cut();
    guard.release().await.unwrap();
    let released = Instant::now();
    drop(waiter.await.unwrap());
    println!(
        "{binary}: served {:?} after cut and release",
        released.elapsed()
    );
    assert!(released.elapsed() < 2_400 * MS + 10 * SECOND);
    assert_nothing_left(&backend, &[&rig.client, &other]).await;
}

// L7
async fn lost_message_costs_one_recheck(binary: ServerBinary) {
    let backend = Backend::real(&binary);
    let messages = Proxy::start(backend.server().address());
    let split = Arc::new(SplitTransport::new(messages.clone()));
    let a = backend.client().await;
    let b = backend.builder().transport(split).connect().await.unwrap();
    for _ in 0..2 {
        let guard = a.lock("x").lock().await.unwrap();
        let waiter = waiting(b.lock("x"));
        registered(&backend, "x").await;
        messages.set_flow(Direction::ToClient, Flow::BlackHole);
        let vanished = messages.vanished();
        guard.release().await.unwrap();
        let released = Instant::now();
        drop(waiter.await.unwrap());
        println!(
            "{binary}: message lost, served after {:?}",
            released.elapsed()
        );
        assert!(messages.vanished() > vanished, "the wake was sent and lost");
        // Half a second is for a machine that is busy.
        assert!(
            released.elapsed() <= 2_400 * MS + 500 * MS,
            "{:?}",
            released.elapsed()
        );
        messages.pass();
        messages.cut();
        b.settled().await;
    }
    assert_nothing_left(&backend, &[&a, &b]).await;
}

fn said(reply: &[u8], verdict: &str) -> bool {
    String::from_utf8_lossy(reply).contains(verdict)
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
