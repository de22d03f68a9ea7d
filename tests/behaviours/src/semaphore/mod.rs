//! The semaphore.

pub mod behaviour;
pub mod waiting;

use redlatch::Semaphore;

use crate::{given::Ground, prelude::*};

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
    let queue = async || semaphore.totals().await.unwrap().waiters == waiters;
    wait_for("waiters to queue", queue).await;
}

/// Sets the number of the semaphore `x`.
pub async fn set(client: &Client, permits: u32) -> Semaphore {
    let semaphore = client.semaphore("x");
    semaphore.set_permits(permits).await.unwrap();
    semaphore
}

/// Checks that all permits of `x` are back.
pub(crate) async fn all_back(ground: &Ground<'_, Backend>) {
    let client = &ground.clients[0];
    assert_all_back(ground.servers, client, &client.semaphore("x")).await;
}
