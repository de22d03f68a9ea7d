//! Many readers: what they cost, and that all of them come and go.

use super::{Rw, assert_quiet, quiet, waits, writes};
use crate::prelude::*;

behaviours! {
    left quiet;
    Cluster:
        ten_thousand_readers_hold_one_name,
        cost_of_a_waiting_reader_does_not_grow_with_their_number;
}

/// Returns how many commands `lock`'s holds cost the server per pair of acquire and release.
async fn cost_of_a_read(backend: &Backend, lock: &Rw) -> u64 {
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
    let read = || match backend.is_embedded() {
        true => lock.read(),
        false => lock.read().lease(600 * SECOND),
    };
    let mut guards = Vec::new();
    for chunk in 0..readers / 500 {
        let reads = (0..500).map(|_| read().into_future());
        guards.extend(try_join_all(reads).await.unwrap());
        assert_eq!(guards.len(), (chunk + 1) * 500);
    }
    assert_eq!(lock.info().await.unwrap().readers, readers as u64);
    assert_eq!(lock.holders().await.unwrap().len(), readers);
    // Commands per read hold.
    assert_eq!(cost_of_a_read(backend, &lock).await, alone);
    let writing = writes(lock.clone());
    waits(&lock, 1, 0).await;
    // Long enough that each was renewed, and the index knows of none of it.
    if backend.is_embedded() {
        backend.pass(Duration::from_secs(40)).await;
        assert!(!writing.is_finished());
        assert_eq!(lock.info().await.unwrap().readers, readers as u64);
    }
    drop(guards);
    writing.await.unwrap().release().await.unwrap();
    assert_quiet(backend, &client, "x").await;
}

async fn cost_of_a_waiting_reader_does_not_grow_with_their_number(backend: &Backend, rw: [Rw; 2]) {
    let mut costs = Vec::new();
    for crowd in [1, 16, 128] {
        let writer = rw[0].write().await.unwrap();
        let before = backend.script_calls();
        let readers = spawned(crowd, |_| {
            let lock = rw[1].clone();
            async move { lock.read().await.unwrap().release().await.unwrap() }
        });
        // Through the harness and not through scripts.
        let all_wait = async || backend.members("redlatch:{x}:r") == crowd as u64;
        wait_for("the crowd to wait", all_wait).await;
        writer.release().await.unwrap();
        finished(readers).await;
        let calls = backend.script_calls() - before;
        costs.push(calls as f64 / crowd as f64);
    }
    println!("commands per contended read at 1, 16, 128 waiters: {costs:.1?}");
    // To queue, to look again once subscribed, to come in, to release; one more when a call of the
    // line crosses the message; and the writer's release.
    assert!(costs[1..].iter().all(|cost| *cost <= 6.0), "{costs:?}");
}
