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

/// Starts to count down by one and wait, in a task of its own.
pub fn counting_and_waiting(latch: CountDownLatch) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move { latch.count_down_and_wait(1).await })
}

/// Sets the latch `x` to four and counts it down by one.
pub async fn set_and_count(client: &Client) {
    let latch = client.count_down_latch("x");
    assert!(latch.try_set_count(4).await.unwrap());
    assert_eq!(latch.count_down(1).await.unwrap(), 3);
}
