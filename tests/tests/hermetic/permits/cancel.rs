//! An acquisition of ids may be dropped at every await and leaves nothing; ids that it has given
//! are the caller's.

use crate::prelude::*;

/// Polls an acquisition 1, 2, 3, … times and drops it, until it is done before that. All permits
/// are free, or the acquisition waits until the lease of others ends.
// L2
#[tokio::test(start_paused = true)]
async fn cancelled_acquire_releases_permits_and_leaves_no_place() {
    for waits in [false, true] {
        after_each_poll(async |polls| {
            let (backend, [client]) = embedded().await;
            let permits = client.permit_expirable_semaphore("x");
            permits.set_permits(3).await.unwrap();
            if waits {
                permits.acquire_many(2).lease(200 * MS).await.unwrap();
            }
            let acquiring = permits.acquire_many(3).into_future();
            let taken = polled(&backend, acquiring, polls).await;
            let taken = taken.map(Result::unwrap);
            assert_tables_empty(&client).await;
            // By then what was out before is over.
            backend.pass(250 * MS).await;
            let out = permits.totals().await.unwrap().acquired as usize;
            let mine = taken.as_ref().map_or(0, Vec::len);
            assert_eq!(out, mine, "waits: {waits}, after {polls} polls");
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
}
