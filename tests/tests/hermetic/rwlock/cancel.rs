//! Every future of the lock may be dropped at every await (L2).

use redlatch::ReadWriteLock;

use crate::{
    cancel::{dropped_at_every_await, held_by_another},
    prelude::*,
    ways::way,
};

fn lock(client: &Client) -> ReadWriteLock {
    client.read_write_lock("x")
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_hold_of_a_free_name_leaves_nothing() {
    let polls = dropped_at_every_await(way("write"), async |_: &Backend, client: &Client| {
        let lock = lock(client);
        let all = async move {
            lock.read().await.unwrap().release().await.unwrap();
            lock.write().await.unwrap().release().await.unwrap();
            let look = lock.upgradable_read().await.unwrap();
            let writer = look.upgrade().await.unwrap();
            drop(writer.downgrade().await.unwrap());
        };
        (task(all), None)
    })
    .await;
    assert!(polls > 6);
}

#[tokio::test(start_paused = true)]
async fn cancelled_upgrade_beside_a_reader_keeps_the_read() {
    dropped_at_every_await(way("write"), async |backend: &Backend, client: &Client| {
        let reader = held_by_another(way("write"), backend).await;
        let look = lock(client).upgradable_read().await.unwrap();
        let upgrade = look.try_upgrade_for(30 * MS).into_future();
        let others = async move {
            look.check().unwrap();
            drop(look);
            reader.await;
        };
        (task(upgrade), Some(task(others)))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_hold_during_a_hand_over_leaves_nothing() {
    dropped_at_every_await(way("write"), async |backend: &Backend, client: &Client| {
        let writer = lock(&backend.client().await).write().await.unwrap();
        tokio::spawn(async move {
            sleep(3 * MS).await;
            let reader = writer.downgrade().await.unwrap();
            sleep(3 * MS).await;
            reader.release().await.unwrap();
        });
        let lock = lock(client);
        let both = async move {
            drop(lock.read().await.unwrap());
            drop(lock.write().await.unwrap());
        };
        (task(both), None)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_downgrade_beside_waiters_leaves_nothing() {
    dropped_at_every_await(way("write"), async |backend: &Backend, client: &Client| {
        let writer = lock(client).write().await.unwrap();
        let waits = lock(&backend.client().await);
        tokio::spawn(async move { drop(waits.try_read_for(20 * MS).await) });
        sleep(2 * MS).await;
        let downgrade = writer.downgrade();
        let released = async move { downgrade.await.unwrap().release().await.unwrap() };
        (task(released), None)
    })
    .await;
}
