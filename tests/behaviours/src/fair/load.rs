//! What the fair lock costs, and long queues.

use std::future::pending;

use super::support::queued;
use crate::prelude::*;

/// How many of a long queue are served before the others leave.
const SERVED: u64 = 100;

behaviours! {
    Cluster:
        queue_of_ten_thousand_is_served_and_left;
}

async fn queue_of_ten_thousand_is_served_and_left(backend: Emptied<'_>) {
    let (many, _turn) = backend.crowd().await;
    let clients = join_all((0..3).map(|_| backend.patient_client())).await;
    let guard = clients[0].fair_lock("x").lock().await.unwrap();
    let first = queued(&clients[1].fair_lock("x")).await;
    let served = Arc::new(AtomicU64::new(0));
    let crowd = spawned(many, |_| {
        let (lock, served) = (clients[2].fair_lock("x"), Arc::clone(&served));
        async move {
            let guard = lock.lock().await.unwrap();
            if served.fetch_add(1, Ordering::SeqCst) < SERVED {
                guard.release().await.unwrap();
            } else {
                pending::<()>().await;
            }
        }
    });
    let lock = clients[0].fair_lock("x");
    let all = async || lock.info().await.unwrap().unwrap().waiters == many as u64 + 1;
    wait_for("the crowd", all).await;
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
    let some = async || served.load(Ordering::SeqCst) > SERVED;
    wait_for("some to be served", some).await;
    let each = (backend.script_calls() - before) as f64 / SERVED as f64;
    println!("in a queue of {many}: {each:.2} commands per grant");
    // Take and release, and a look now and then.
    assert!(each <= 2.5, "{each} commands per grant");
    // All of them leave at once, with who holds; whoever is behind them is next.
    crowd.iter().for_each(JoinHandle::abort);
    for task in crowd {
        drop(task.await);
    }
    last.await.unwrap().release().await.unwrap();
    clients[2].settled().await;
}
