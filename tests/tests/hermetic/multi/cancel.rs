//! Locks over several may be dropped at every await: poll k times, drop, look what is left (L2,
//! L41).

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
};

use redlatch::{Client, Lockable, RedLock};
use redlatch_behaviours::multi::{Fleet, MS, mixes};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that. After each
/// drop nothing is left anywhere.
async fn dropped_at_every_await(nodes: usize, make: impl Fn(&[Client]) -> Task) -> u32 {
    for polls in 1..10_000 {
        let fleet = Fleet::embedded(nodes);
        let clients = fleet.clients().await;
        let mut task = make(&clients);
        let mut done = false;
        for _ in 0..polls {
            if futures_util::poll!(task.as_mut()).is_ready() {
                done = true;
                break;
            }
            fleet.pass(MS / 2).await;
        }
        drop(task);
        fleet.pass(10 * MS).await;
        fleet.assert_nothing_left(&clients).await;
        if done {
            return polls;
        }
    }
    panic!("it never ends");
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_multi_lock_leaves_nothing() {
    let polls = dropped_at_every_await(2, |clients| {
        let (a, b, c) = (
            clients[0].lock("a"),
            clients[1].lock("b"),
            clients[0].lock("c"),
        );
        let all = clients[0].multi_lock(&[&a, &b, &c]);
        Box::pin(async move {
            let guard = all.lock().lease(300 * MS).await.unwrap();
            guard.release().await.unwrap();
        })
    })
    .await;
    assert!(polls > 3);
}

/// Of every kind, taken while they are free.
#[tokio::test(start_paused = true)]
async fn cancelled_mixed_lock_leaves_nothing() {
    let polls = mixes::dropped_at_every_await(false).await;
    assert!(polls > 5, "{polls}");
}

/// Each member of which is held by another for a while, so that it is waited for, and others behind
/// it are free or not.
#[tokio::test(start_paused = true)]
async fn cancelled_mixed_lock_that_waits_leaves_nothing() {
    let polls = mixes::dropped_at_every_await(true).await;
    assert!(polls > 50, "{polls}");
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_red_lock_leaves_nothing() {
    let polls = dropped_at_every_await(3, |clients| {
        let locks: Vec<_> = clients.iter().map(|client| client.lock("x")).collect();
        let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
        let lock = RedLock::builder(&nodes).durable_nodes().build().unwrap();
        let waiting = lock.lock().into_future();
        Box::pin(async move {
            waiting.await.unwrap().release().await.unwrap();
        })
    })
    .await;
    assert!(polls > 1);
}
