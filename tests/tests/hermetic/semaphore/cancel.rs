//! Every future of the semaphore may be dropped at every await: poll it k times, drop it, look what
//! is left.

use redlatch::{Client, Semaphore, SemaphorePermit};
use redlatch_behaviours::prelude::*;
use redlatch_behaviours::semaphore::assert_all_back;

use crate::cancel::{Task, after_each_poll, polled, task};

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that. After each
/// drop all permits come back that the task had, and `left` says how many there may be in all.
async fn dropped_at_every_await(
    make: impl AsyncFn(&Backend, &Client, Semaphore) -> (Task, Option<SemaphorePermit>),
    left: &[u32],
) {
    after_each_poll(async |polls| {
        let (backend, [client]) = embedded().await;
        let semaphore = client.semaphore("x");
        semaphore.set_permits(3).await.unwrap();
        let (task, other) = make(&backend, &client, semaphore.clone()).await;
        let done = polled(&backend, task, polls).await.is_some();
        client.settled().await;
        drop(other);
        assert_tables_empty(&client).await;
        backend.pass(10 * MS).await;
        assert_all_back(&backend, &client, &semaphore).await;
        let permits = semaphore.permits().await.unwrap();
        assert!(left.contains(&permits), "{permits} after {polls} polls");
        backend.pass(Duration::from_secs(40)).await;
        assert_eq!(backend.keys(), ["redlatch:{x}"]);
        let marks = backend.hash("redlatch:{x}");
        assert!(
            marks.keys().all(|field| !field.starts_with("h:")),
            "{marks:?}"
        );
        done
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_of_a_part_goes_on() {
    dropped_at_every_await(
        async |_: &Backend, _: &Client, semaphore| {
            let mut other = semaphore.acquire_many(3).await.unwrap();
            let part = other.split(1).unwrap();
            let released = async move { assert!(part.release().await.unwrap().is_clean()) };
            (task(released), Some(other))
        },
        &[3],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_forget_takes_effect_once_at_most() {
    dropped_at_every_await(
        async |_: &Backend, _: &Client, semaphore| {
            let mut other = semaphore.acquire_many(3).await.unwrap();
            let part = other.split(1).unwrap();
            (
                task(async move { part.forget().await.unwrap() }),
                Some(other),
            )
        },
        &[2],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_changes_count_once_or_not_at_all() {
    dropped_at_every_await(
        async |_: &Backend, _: &Client, semaphore| {
            let added = async move { assert_eq!(semaphore.add_permits(2).await.unwrap(), 5) };
            (task(added), None)
        },
        &[3, 5],
    )
    .await;
}
