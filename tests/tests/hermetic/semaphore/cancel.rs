//! Every future of the semaphore may be dropped at every await: poll it k times, drop it, look what
//! is left.

use redlatch::{Semaphore, SemaphorePermit};
use redlatch_behaviours::semaphore::assert_all_back;

use crate::prelude::*;

/// Makes a call of a semaphore and of a part of a guard.
type Call = fn(Semaphore, SemaphorePermit) -> Task;

/// The calls, each with the numbers of permits that there may be in all afterwards.
const CALLS: [(&str, &[u32], Call); 3] = [
    ("release of a part", &[3], |_, part| {
        task(async move { assert!(part.release().await.unwrap().is_clean()) })
    }),
    ("forgetting", &[2], |_, part| {
        task(async move { part.forget().await.unwrap() })
    }),
    ("change of the number", &[3, 5], |semaphore, part| {
        task(async move {
            assert_eq!(semaphore.add_permits(2).await.unwrap(), 5);
            drop(part);
        })
    }),
];

/// After each drop all permits come back that the call had, and a change counts once or not at all.
#[tokio::test(start_paused = true)]
async fn cancelled_calls_go_on_or_count_once_at_most() {
    for (what, left, call) in CALLS {
        after_each_poll(async |polls| {
            let (backend, [client]) = embedded().await;
            let semaphore = client.semaphore("x");
            semaphore.set_permits(3).await.unwrap();
            let mut other = semaphore.acquire_many(3).await.unwrap();
            let called = call(semaphore.clone(), other.split(1).unwrap());
            let done = polled(&backend, called, polls).await.is_some();
            client.settled().await;
            drop(other);
            assert_tables_empty(&client).await;
            backend.pass(10 * MS).await;
            assert_all_back(&backend, &client, &semaphore).await;
            let permits = semaphore.permits().await.unwrap();
            let fits = left.contains(&permits);
            assert!(fits, "{what} after {polls} polls: {permits}");
            backend.pass(Duration::from_secs(40)).await;
            assert_eq!(backend.keys(), ["redlatch:{x}"], "{what}");
            let marks = backend.hash("redlatch:{x}");
            let is_hold = |field: &String| field.starts_with("h:");
            assert!(!marks.keys().any(is_hold), "{what}: {marks:?}");
            done
        })
        .await;
    }
}
