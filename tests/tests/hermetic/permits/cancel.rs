//! An acquisition of ids may be dropped at every await and leaves nothing; ids that it has given
//! are the caller's.

use std::pin::Pin;

use redlatch::{Client, PermitExpirableSemaphore, PermitId};
use redlatch_behaviours::prelude::*;

use crate::cancel::{after_each_poll, polled};

/// What is polled.
type Task = Pin<Box<dyn Future<Output = Vec<PermitId>>>>;

/// Polls what `make` gives 1, 2, 3, … times and drops it, until it is done before that.
async fn dropped_at_every_await(
    make: impl AsyncFn(&Backend, &Client, PermitExpirableSemaphore) -> (Task,),
) {
    after_each_poll(async |polls| {
        let (backend, [client]) = embedded().await;
        let permits = client.permit_expirable_semaphore("x");
        permits.set_permits(3).await.unwrap();
        let (task,) = make(&backend, &client, permits.clone()).await;
        let taken = polled(&backend, task, polls).await;
        assert_tables_empty(&client).await;
        // By then what was out before is over.
        backend.pass(250 * MS).await;
        let out = permits.totals().await.unwrap().acquired as usize;
        assert_eq!(
            out,
            taken.as_ref().map_or(0, Vec::len),
            "after {polls} polls"
        );
        let done = taken.is_some();
        for id in taken.into_iter().flatten() {
            let left = permits.remaining(&id).await.unwrap();
            assert!(left.is_some(), "it is the caller's");
            permits.release(&id).await.unwrap();
        }
        backend.pass(Duration::from_secs(40)).await;
        assert_eq!(backend.keys(), ["redlatch:{x}"]);
        done
    })
    .await;
}

// L2
#[tokio::test(start_paused = true)]
async fn cancelled_acquire_releases_permits() {
    dropped_at_every_await(async |_: &Backend, _: &Client, permits| {
        (Box::pin(async move { permits.acquire_many(3).await.unwrap() }) as Task,)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiting_acquire_leaves_no_place() {
    dropped_at_every_await(async |_: &Backend, _: &Client, permits| {
        let ids = permits.acquire_many(2).lease(200 * MS).await.unwrap();
        let task = Box::pin(async move {
            // What is out ends by its lease while this waits.
            let _ = ids;
            let waiting = permits.acquire_many(3).into_future();
            waiting.await.unwrap()
        });
        (task as Task,)
    })
    .await;
}
