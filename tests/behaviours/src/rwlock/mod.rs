//! The read-write lock.

pub mod behaviour;
pub mod crowd;
pub mod fairness;
pub mod upgrade;

use redlatch::{Client, ReadGuard, ReadWriteLock, WriteGuard};
use tokio::task::JoinHandle;

use crate::prelude::*;

/// Waits until the server knows of so many waiters.
pub async fn waiting(client: &Client, name: &str, writers: u64, readers: u64) {
    wait_for("waiters to be known", async || {
        let info = client.read_write_lock(name).info().await.unwrap();
        (info.waiting_writers, info.waiting_readers) == (writers, readers)
    })
    .await;
}

/// Checks that nobody holds, and that neither the client nor the server has anything left of it but
/// what is remembered for a while.
pub async fn assert_quiet(backend: &Backend, client: &Client, name: &str) {
    assert_tables_empty(client).await;
    let lock = client.read_write_lock(name);
    assert_eq!(lock.holders().await.unwrap(), []);
    for key in backend.keys() {
        assert!(backend.ends(&key), "{key} has no end");
        if let Some((_, part)) = key.rsplit_once("}:") {
            assert_ne!(part, "d", "the index of readers is left");
            continue;
        }
        for (field, value) in backend.hash(&key) {
            let record = "ohu".contains(&field);
            let remembered = "ktzfanybc".contains(&field) || field.starts_with('v');
            assert!(remembered || record, "{key} still has {field}: {value}");
        }
    }
}

/// Starts to read in a task of its own.
pub fn reads(lock: ReadWriteLock) -> JoinHandle<ReadGuard> {
    tokio::spawn(async move { lock.read().await.unwrap() })
}

/// Starts to write in a task of its own.
pub fn writes(lock: ReadWriteLock) -> JoinHandle<WriteGuard> {
    tokio::spawn(async move { lock.write().await.unwrap() })
}
