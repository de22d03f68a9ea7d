//! The countdown latch.

pub mod behaviour;
pub mod waiting;

use redlatch::CountDownLatch;

use crate::prelude::*;

/// Starts to wait in a task of its own.
pub fn waiting(latch: CountDownLatch) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move { latch.wait().await })
}

/// Waits until each of these waiters has passed.
pub async fn passed(waiters: impl IntoIterator<Item = JoinHandle<Result<(), Error>>>) {
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
}

/// Waits until so many waiters of `client` listen.
pub async fn listening(client: &Client, waiters: usize) {
    let listen = async || client.tables().listeners == waiters;
    wait_for("waiters to listen", listen).await;
    // The last look of the last of them.
    sleep(50 * MS).await;
}

/// Starts to count down by one and wait, in a task of its own.
pub fn counting_and_waiting(latch: CountDownLatch) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move { latch.count_down_and_wait(1).await })
}

/// Connects a client and sets the latch `x`.
pub async fn set(backend: &Backend, count: u32) -> (Client, CountDownLatch) {
    let client = backend.client().await;
    let latch = shut(&client, count).await;
    (client, latch)
}

/// Sets the latch `x`.
pub async fn shut(client: &Client, count: u32) -> CountDownLatch {
    let latch = client.count_down_latch("x");
    assert!(latch.try_set_count(count).await.unwrap());
    latch
}
