//! Every future of the fair lock may be dropped at every await: poll it k times, drop it, look what
//! is left (L2).

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use redlatch::{Backoff, Client, FairLockGuard, WaitStrategy};
use redlatch_behaviours::fair::support::queued;
use redlatch_tests::backend::{Backend, assert_tables_empty};

const MS: Duration = Duration::from_millis(1);

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that. After each
/// drop `client` has nothing, a waiter behind it is served at once, and nothing is left on the
/// server.
async fn dropped_at_every_await(
    make: impl AsyncFn(&Backend, &Client) -> (Task, Option<FairLockGuard>),
) -> u32 {
    for polls in 1.. {
        let backend = Backend::embedded();
        let (client, behind) = (backend.client().await, backend.client().await);
        let (mut task, other) = make(&backend, &client).await;
        let mut done = false;
        for _ in 0..polls {
            if futures_util::poll!(task.as_mut()).is_ready() {
                done = true;
                break;
            }
            backend.pass(MS / 2).await;
        }
        let lock = behind.fair_lock("x");
        let waiter = tokio::spawn(lock.lock().into_future());
        backend.pass(MS).await;
        drop(task);
        if let Some(other) = other {
            other.release().await.unwrap();
        }
        assert_tables_empty(&client).await;
        let start = tokio::time::Instant::now();
        drop(waiter.await.unwrap().unwrap());
        assert!(
            start.elapsed() < 50 * MS,
            "after {polls} polls: {:?}",
            start.elapsed()
        );
        backend.pass(10 * MS).await;
        assert_tables_empty(&client).await;
        assert_tables_empty(&behind).await;
        backend.assert_only_counters_left();
        if done {
            return polls;
        }
        assert!(polls < 10_000, "it never ends");
    }
    unreachable!("the loop ends by itself")
}

async fn held_by_another(backend: &Backend) -> FairLockGuard {
    backend.client().await.fair_lock("x").lock().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_of_a_free_name_leaves_nothing() {
    let polls = dropped_at_every_await(async |_: &Backend, client: &Client| {
        let lock = client.fair_lock("x");
        (
            Box::pin(async move { drop(lock.lock().await.unwrap()) }) as Task,
            None,
        )
    })
    .await;
    assert!(polls > 1);
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_lock_of_a_held_name_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, client: &Client| {
        let other = held_by_another(backend).await;
        let lock = client.fair_lock("x");
        (
            Box::pin(async move { drop(lock.try_lock_for(20 * MS).await.unwrap()) }) as Task,
            Some(other),
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_polling_lock_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, client: &Client| {
        let other = held_by_another(backend).await;
        let lock = client.fair_lock("x");
        let poll = WaitStrategy::Poll(Backoff::constant(2 * MS));
        let waiting = lock.try_lock_for(20 * MS).strategy(poll);
        (
            Box::pin(async move { drop(waiting.await.unwrap()) }) as Task,
            Some(other),
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_before_the_subscription_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, _: &Client| {
        let other = held_by_another(backend).await;
        let client = backend.builder().self_check(false).connect().await.unwrap();
        let lock = client.fair_lock("x");
        (
            Box::pin(async move { drop(lock.try_lock_for(20 * MS).await.unwrap()) }) as Task,
            Some(other),
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_lock_during_a_hand_over_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, client: &Client| {
        let other = held_by_another(backend).await;
        let lock = client.fair_lock("x");
        tokio::spawn(async move {
            tokio::time::sleep(3 * MS).await;
            other.release().await.unwrap();
        });
        (
            Box::pin(async move { drop(lock.lock().await.unwrap()) }) as Task,
            None,
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiters_of_one_client_leave_nothing() {
    dropped_at_every_await(async |backend: &Backend, client: &Client| {
        let other = held_by_another(backend).await;
        let lock = client.fair_lock("x");
        let task = async move {
            let (first, second) = (lock.try_lock_for(10 * MS), lock.try_lock_for(20 * MS));
            let both = futures_util::future::join(first.into_future(), second.into_future());
            drop(both.await);
        };
        (Box::pin(task) as Task, Some(other))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_inspection_leaves_nothing() {
    dropped_at_every_await(async |backend: &Backend, client: &Client| {
        let other = held_by_another(backend).await;
        let lock = client.fair_lock("x");
        let waiter = queued(&lock).await;
        let task = async move {
            lock.waiters().next().await.unwrap().unwrap();
            lock.position(&lock.client().owner()).await.unwrap();
            lock.info().await.unwrap();
            waiter.abort();
            assert!(waiter.await.is_err());
        };
        (Box::pin(task) as Task, Some(other))
    })
    .await;
}
