//! The plain lock.

pub mod behaviour;
pub mod loss;
pub mod waiting;

use redlatch::{Client, Lock, LockGuard};
use tokio::task::JoinHandle;

use crate::prelude::*;

/// Starts to wait in a task of its own.
pub fn waiting(lock: Lock) -> JoinHandle<LockGuard> {
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

/// Waits until the server knows of so many clients that wait for `name`.
pub async fn registered(client: &Client, name: &str, waiters: u64) {
    let lock = client.lock(name);
    wait_for("a waiter to register", async || {
        let info = lock.info().await.unwrap();
        info.is_some_and(|info| info.waiters == waiters)
    })
    .await;
}
