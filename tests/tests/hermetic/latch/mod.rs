//! The countdown latch.

mod cancel;
mod forgotten;
mod trouble;
mod waiting;

use redlatch::{Client, CountDownLatch};
use redlatch_behaviours::{latch::set, prelude::*};

/// Starts an embedded server that knows all scripts, and sets the latch `x`.
async fn set_latch(count: u32) -> (Backend, Client, CountDownLatch) {
    let backend = Backend::embedded();
    backend.preload();
    let (client, latch) = set(&backend, count).await;
    (backend, client, latch)
}
