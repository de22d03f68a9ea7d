//! Many readers: what they cost, and that all of them come and go.

use futures_util::future::join_all;

use super::{assert_quiet, waiting, writes};
use crate::prelude::*;

behaviours! {
    Cluster:
        ten_thousand_readers_hold_one_name,
        commands_per_write_stay_flat_as_waiters_grow,
        cost_of_a_waiting_reader_does_not_grow_with_their_number;
}

/// Returns how many commands `lock`'s holds cost the server per pair of acquire and release.
async fn cost_of_a_read(backend: &Backend, lock: &redlatch::ReadWriteLock) -> u64 {
    lock.read().await.unwrap().release().await.unwrap();
    let before = backend.script_calls();
    for _ in 0..10 {
        lock.read().await.unwrap().release().await.unwrap();
    }
    (backend.script_calls() - before) / 10
}

// L29
async fn ten_thousand_readers_hold_one_name(backend: &Backend) {
    let (readers, _turn) = backend.crowd().await;
    let client = backend.patient_client().await;
    let lock = client.read_write_lock("x");
    let alone = cost_of_a_read(backend, &lock).await;
    // Renewals on a real server would be counted with what is counted below.
    let lease = (!matches!(backend, Backend::Embedded { .. })).then_some(600 * SECOND);
    let read = || match lease {
        None => lock.read(),
        Some(lease) => lock.read().lease(lease),
    };
    let mut guards = Vec::new();
    for chunk in 0..readers / 500 {
        let reads = (0..500).map(|_| read().into_future());
        let got = join_all(reads).await;
        guards.extend(got.into_iter().map(Result::unwrap));
        assert_eq!(guards.len(), (chunk + 1) * 500);
    }
    assert_eq!(lock.info().await.unwrap().readers, readers as u64);
    assert_eq!(lock.holders().await.unwrap().len(), readers);
    // Commands per read hold.
    assert_eq!(cost_of_a_read(backend, &lock).await, alone);
    let writing = writes(lock.clone());
    waiting(&client, "x", 1, 0).await;
    // Long enough that each was renewed, and the index knows of none of it.
    if let Backend::Embedded { .. } = backend {
        backend.pass(Duration::from_secs(40)).await;
        assert!(!writing.is_finished());
        assert_eq!(lock.info().await.unwrap().readers, readers as u64);
    }
    drop(guards);
    writing.await.unwrap().release().await.unwrap();
    assert_quiet(backend, &client, "x").await;
}

async fn cost_of_a_waiting_reader_does_not_grow_with_their_number(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let mut costs = Vec::new();
    for crowd in [1, 16, 128] {
        let writer = a.read_write_lock("x").write().await.unwrap();
        let before = backend.script_calls();
        let readers: Vec<_> = (0..crowd)
            .map(|_| {
                let lock = b.read_write_lock("x");
                tokio::spawn(async move { lock.read().await.unwrap().release().await.unwrap() })
            })
            .collect();
        // Through the harness and not through scripts.
        wait_for("the crowd to wait", async || {
            backend.members("redlatch:{x}:r") == crowd
        })
        .await;
        writer.release().await.unwrap();
        finished(readers).await;
        let calls = backend.script_calls() - before;
        costs.push(calls as f64 / crowd as f64);
    }
    println!("commands per contended read at 1, 16, 128 waiters: {costs:.1?}");
    // To queue, to look again once subscribed, to come in, to release; one more when a call of the
    // line crosses the message; and the writer's release.
    assert!(costs[1..].iter().all(|cost| *cost <= 6.0), "{costs:?}");
    a.settled().await;
    b.settled().await;
    assert_quiet(backend, &a, "x").await;
}

// L8
async fn commands_per_write_stay_flat_as_waiters_grow(backend: &Backend) {
    let clients = join_all((0..4).map(|_| backend.patient_client())).await;
    for waiters in [1_usize, 16, 128, 1_000] {
        let guard = clients[0].read_write_lock("x").write().await.unwrap();
        let before = backend.script_calls();
        let tasks: Vec<_> = (0..waiters)
            .map(|who| {
                let lock = clients[who % 4].read_write_lock("x");
                tokio::spawn(async move {
                    lock.write().await.unwrap().release().await.unwrap();
                })
            })
            .collect();
        backend.pass(Duration::from_millis(50)).await;
        guard.release().await.unwrap();
        finished(tasks).await;
        let calls = u32::try_from(backend.script_calls() - before).unwrap();
        let each = f64::from(calls) / f64::from(u32::try_from(waiters).unwrap());
        println!("{waiters} waiters: {each:.2} commands per write");
        // Ticket, take, release; the looks of four clients and the first holder's release come on
        // top.
        let most = if waiters < 100 { 6.0 } else { 3.5 };
        assert!(each <= most, "{each} commands with {waiters} waiters");
    }
    for client in &clients {
        assert_quiet(backend, client, "x").await;
    }
}
