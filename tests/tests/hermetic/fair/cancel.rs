//! Every future of the fair lock may be dropped at every await (L2).

use redlatch_behaviours::fair::support::ticket;
use tokio::task::JoinSet;

use crate::{
    cancel::{dropped_at_every_await, held_by_another},
    prelude::*,
    ways::way,
};

#[tokio::test(start_paused = true)]
async fn cancelled_inspection_leaves_nothing() {
    dropped_at_every_await(way("fair"), async |backend: &Backend, client: &Client| {
        let others = held_by_another(way("fair"), backend).await;
        let (lock, owner) = (client.fair_lock("x"), client.owner());
        let mut waiters = JoinSet::new();
        waiters.spawn(lock.lock().owner(&owner).into_future());
        ticket(&lock, &owner).await;
        let all = task(async move {
            lock.waiters().next().await.unwrap().unwrap();
            lock.position(&owner).await.unwrap().unwrap();
            lock.info().await.unwrap();
            waiters.shutdown().await;
        });
        (all, Some(others))
    })
    .await;
}
