//! Every future of the fair lock may be dropped at every await (L2).

use std::future::IntoFuture;

use redlatch::Client;
use redlatch_tests::{
    backend::Backend,
    wait::{GENEROUS, eventually},
};
use tokio::task::JoinSet;

use crate::cancel::{Task, cancellation_tests, dropped_at_every_await, held_by_another, subject};

subject!(Fair: fair_lock.lock / try_lock_for beside lock, assert_nobody_waits, assert_nothing_left);

cancellation_tests!(Fair);

async fn assert_nobody_waits(client: &Client) {
    let info = client.fair_lock("x").info().await.unwrap();
    assert_eq!(info.map_or(0, |info| info.waiters), 0);
}

async fn assert_nothing_left(backend: &Backend, client: &Client) {
    backend.assert_only_counters_left();
    let again = client.fair_lock("x").try_lock().await.unwrap();
    assert!(again.is_some(), "the name is free");
}

#[tokio::test(start_paused = true)]
async fn cancelled_inspection_leaves_nothing() {
    dropped_at_every_await::<Fair>(async |backend: &Backend, client: &Client| {
        let others = held_by_another::<Fair>(backend).await;
        let (lock, owner) = (client.fair_lock("x"), client.owner());
        let mut waiters = JoinSet::new();
        waiters.spawn(lock.lock().owner(&owner).into_future());
        eventually("a waiter to queue", GENEROUS, async || {
            lock.position(&owner).await.unwrap().is_some()
        })
        .await;
        let task = async move {
            lock.waiters().next().await.unwrap().unwrap();
            lock.position(&owner).await.unwrap().unwrap();
            lock.info().await.unwrap();
            waiters.shutdown().await;
        };
        (Box::pin(task) as Task, Some(others))
    })
    .await;
}
