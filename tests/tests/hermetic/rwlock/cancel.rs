//! Every future of the lock may be dropped at every await: poll it k times, drop it, look what is
//! left (L2).

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use redlatch::{Client, ReadWriteLock};
use redlatch_behaviours::rwlock::assert_quiet;
use redlatch_tests::backend::{Backend, assert_tables_empty};

const MS: Duration = Duration::from_millis(1);

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What others hold meanwhile, and what the client itself holds.
type Kept = Vec<Box<dyn std::any::Any>>;

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that. After each
/// drop, and once all others have let go, `client` has nothing and nobody holds.
async fn dropped_at_every_await(make: impl AsyncFn(&Client, &Client) -> (Task, Kept)) -> u32 {
    for polls in 1.. {
        let backend = Backend::embedded();
        let (client, other) = (backend.client().await, backend.client().await);
        let (mut task, kept) = make(&client, &other).await;
        let mut done = false;
        for _ in 0..polls {
            if futures_util::poll!(task.as_mut()).is_ready() {
                done = true;
                break;
            }
            // Lets the background work, timers and messages get one step ahead.
            backend.pass(MS / 2).await;
        }
        drop(task);
        if !kept.is_empty() {
            // Nobody is held back by what was given up.
            client.settled().await;
            let info = other.read_write_lock("x").info().await.unwrap();
            assert_eq!(
                (info.waiting_writers, info.waiting_readers),
                (0, 0),
                "after {polls} polls"
            );
        }
        drop(kept);
        // What the other does in the background ends, too.
        backend.pass(50 * MS).await;
        assert_tables_empty(&other).await;
        assert_quiet(&backend, &client, "x").await;
        let again = other.read_write_lock("x").try_write().await.unwrap();
        assert!(
            again.is_some(),
            "dropped after {polls} polls, the name is free"
        );
        if done {
            return polls;
        }
        assert!(polls < 10_000, "it never ends");
    }
    unreachable!("the loop ends by itself")
}

fn lock(client: &Client) -> ReadWriteLock {
    client.read_write_lock("x")
}

fn task<T: 'static>(future: impl Future<Output = T> + 'static) -> Task {
    Box::pin(async move { drop(future.await) })
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_hold_of_a_free_name_leaves_nothing() {
    let polls = dropped_at_every_await(async |client: &Client, _: &Client| {
        let lock = lock(client);
        let all = async move {
            lock.read().await.unwrap().release().await.unwrap();
            lock.write().await.unwrap().release().await.unwrap();
            let look = lock.upgradable_read().await.unwrap();
            let writer = look.upgrade().await.unwrap();
            drop(writer.downgrade().await.unwrap());
        };
        (task(all), Vec::new())
    })
    .await;
    assert!(polls > 6);
}

#[tokio::test(start_paused = true)]
async fn cancelled_read_beside_a_writer_leaves_nothing() {
    dropped_at_every_await(async |client: &Client, other: &Client| {
        let writer = lock(other).write().await.unwrap();
        let read = lock(client).try_read_for(30 * MS).into_future();
        (task(read), vec![Box::new(writer) as _])
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_write_beside_a_reader_leaves_nothing() {
    dropped_at_every_await(async |client: &Client, other: &Client| {
        let reader = lock(other).read().await.unwrap();
        let write = lock(client).try_write_for(30 * MS).into_future();
        (task(write), vec![Box::new(reader) as _])
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_upgradable_read_beside_another_leaves_nothing() {
    dropped_at_every_await(async |client: &Client, other: &Client| {
        let reader = lock(other).upgradable_read().await.unwrap();
        let look = lock(client).try_upgradable_read_for(30 * MS).into_future();
        (task(look), vec![Box::new(reader) as _])
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_upgrade_beside_a_reader_keeps_the_read() {
    dropped_at_every_await(async |client: &Client, other: &Client| {
        let reader = lock(other).read().await.unwrap();
        let look = lock(client).upgradable_read().await.unwrap();
        let upgrade = look.try_upgrade_for(30 * MS).into_future();
        (
            task(upgrade),
            vec![Box::new(reader) as _, Box::new(look) as _],
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_hold_during_a_hand_over_leaves_nothing() {
    dropped_at_every_await(async |client: &Client, other: &Client| {
        let writer = lock(other).write().await.unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(3 * MS).await;
            let reader = writer.downgrade().await.unwrap();
            tokio::time::sleep(3 * MS).await;
            reader.release().await.unwrap();
        });
        let lock = lock(client);
        let both = async move {
            drop(lock.read().await.unwrap());
            drop(lock.write().await.unwrap());
        };
        (task(both), Vec::new())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_downgrade_beside_waiters_leaves_nothing() {
    dropped_at_every_await(async |client: &Client, other: &Client| {
        let writer = lock(client).write().await.unwrap();
        let waits = lock(other);
        tokio::spawn(async move { drop(waits.try_read_for(20 * MS).await) });
        tokio::time::sleep(2 * MS).await;
        let downgrade = writer.downgrade();
        (
            task(async move { downgrade.await.unwrap().release().await.unwrap() }),
            Vec::new(),
        )
    })
    .await;
}
