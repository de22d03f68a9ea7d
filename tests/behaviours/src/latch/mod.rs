//! The countdown latch.

pub mod behaviour;
pub mod waiting;
pub mod wrong_input;

use redlatch::{Client, CountDownLatch, Error};
use redlatch_tests::wait::{GENEROUS, eventually};
use tokio::task::JoinHandle;

/// Starts to wait in a task of its own.
pub fn waiting(latch: CountDownLatch) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move { latch.wait().await })
}

/// Waits until so many waiters of `client` listen.
pub async fn listening(client: &Client, waiters: usize) {
    eventually("waiters to listen", GENEROUS, async || {
        client.tables().listeners == waiters
    })
    .await;
    // The last look of the last of them.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
}
