//! What the fair lock costs, and long queues.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::support::{Grants, clients, queued};
use crate::prelude::*;

/// How many of a long queue are served before the others leave.
const SERVED: u64 = 100;

behaviours! {
    Cluster:
        commands_per_acquisition_stay_flat_as_waiters_grow,
        queue_of_ten_thousand_is_served_and_left;
}

// L8
async fn commands_per_acquisition_stay_flat_as_waiters_grow(backend: &Backend) {
    let clients = clients(backend, 4).await;
    for waiters in [1_usize, 16, 128, 1_000] {
        let guard = clients[0].fair_lock("x").lock().await.unwrap();
        let before = backend.script_calls();
        let grants = Grants::default();
        let tasks: Vec<_> = (0..waiters)
            .map(|who| {
                let (lock, grants) = (clients[who % 4].fair_lock("x"), grants.clone());
                tokio::spawn(async move {
                    let guard = lock.lock().await.unwrap();
                    grants.note(who);
                    guard.release().await.unwrap();
                })
            })
            .collect();
        backend.pass(50 * MS).await;
        guard.release().await.unwrap();
        finished(tasks).await;
        assert_eq!(grants.list().len(), waiters);
        // The first holder's release is none of theirs.
        let calls = u32::try_from(backend.script_calls() - before - 1).unwrap();
        let each = f64::from(calls) / f64::from(u32::try_from(waiters).unwrap());
        println!("{waiters} waiters: {each:.2} commands per acquisition");
        // Ticket, take, release; the looks of four clients come on top.
        let most = if waiters < 100 { 5.0 } else { 3.5 };
        assert!(each <= most, "{each} commands with {waiters} waiters");
    }
    for client in &clients {
        assert_tables_empty(client).await;
    }
    backend.assert_only_counters_left();
}

async fn queue_of_ten_thousand_is_served_and_left(backend: &Backend) {
    let (many, _turn) = backend.crowd().await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(backend.patient_client().await);
    }
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let first = queued(&clients[1].fair_lock("x")).await;
    let served = Arc::new(AtomicU64::new(0));
    let crowd: Vec<_> = (0..many)
        .map(|_| {
            let (lock, served) = (clients[2].fair_lock("x"), Arc::clone(&served));
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                if served.fetch_add(1, Ordering::SeqCst) < SERVED {
                    guard.release().await.unwrap();
                } else {
                    pending::<()>().await;
                }
            })
        })
        .collect();
    let lock = clients[0].fair_lock("x");
    wait_for("the crowd", async || {
        lock.info().await.unwrap().unwrap().waiters == many as u64 + 1
    })
    .await;
    let last = queued(&lock).await;
    let mut waiters = lock.waiters();
    let mut count = 0;
    while let Some(waiter) = waiters.next().await {
        assert_eq!(waiter.unwrap().position, count);
        count += 1;
    }
    assert_eq!(count, many as u64 + 2);
    guard.release().await.unwrap();
    let held = first.await.unwrap();
    // On a busy machine some have asked twice, and the second time is under way.
    wait_for("everybody to be answered", async || {
        let before = backend.script_calls();
        backend.pass(300 * MS).await;
        backend.script_calls() - before <= 3
    })
    .await;
    let before = backend.script_calls();
    held.release().await.unwrap();
    wait_for("some to be served", async || {
        served.load(Ordering::SeqCst) > SERVED
    })
    .await;
    let calls = u32::try_from(backend.script_calls() - before).unwrap();
    let each = f64::from(calls) / SERVED as f64;
    println!("in a queue of {many}: {each:.2} commands per grant");
    // Take and release, and a look now and then.
    assert!(each <= 2.5, "{each} commands per grant");
    // All of them leave at once, with who holds; whoever is behind them is next.
    for task in &crowd {
        task.abort();
    }
    for task in crowd {
        drop(task.await);
    }
    last.await.unwrap().release().await.unwrap();
    clients[2].settled().await;
    backend.assert_only_counters_left();
}
