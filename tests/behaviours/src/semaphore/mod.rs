//! The semaphore.

pub mod behaviour;
pub mod waiting;

use redlatch::{Client, Semaphore};

use crate::prelude::*;

/// The key that decides about the semaphore `x`.
pub const KEY: &str = "redlatch:{x}";

/// Checks that all permits are back and that the server has nothing of them.
pub async fn assert_all_back(backend: &Backend, client: &Client, semaphore: &Semaphore) {
    assert_tables_empty(client).await;
    let totals = semaphore.totals().await.unwrap();
    assert_eq!(totals.acquired, 0, "{totals:?}");
    assert_eq!(totals.available, totals.permits);
    let hash = backend.hash(KEY);
    let left = hash.keys().filter(|field| field.starts_with("h:"));
    assert_eq!(left.count(), 0, "{hash:?}");
    assert!(!backend.keys().contains(&format!("{KEY}:d")));
}

/// Waits until so many wait in the server's queue.
pub async fn queued(semaphore: &Semaphore, waiters: u64) {
    wait_for("waiters to queue", async || {
        semaphore.totals().await.unwrap().waiters == waiters
    })
    .await;
}

/// Connects a client whose first acquisition sets the number of the semaphore `x`.
pub async fn pool(backend: &Backend, permits: u32) -> (Client, Semaphore) {
    let client = backend.client().await;
    let semaphore = client.semaphore("x").permits_if_unset(permits);
    (client, semaphore)
}

/// Connects a client and sets the number of the semaphore `x`.
pub async fn set_pool(backend: &Backend, permits: u32) -> (Client, Semaphore) {
    let client = backend.client().await;
    let semaphore = client.semaphore("x");
    semaphore.set_permits(permits).await.unwrap();
    (client, semaphore)
}
