//! The plain lock.

pub mod behaviour;
pub mod loss;
pub mod waiting;

pub use redlatch_tests::fixture::waiting;

use crate::prelude::*;

/// Waits until the server knows of so many clients that wait for `name`.
pub async fn registered(client: &Client, name: &str, waiters: u64) {
    let lock = client.lock(name);
    wait_for("a waiter to register", async || {
        let info = lock.info().await.unwrap();
        info.is_some_and(|info| info.waiters == waiters)
    })
    .await;
}
