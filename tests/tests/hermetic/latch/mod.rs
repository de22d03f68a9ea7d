//! The countdown latch.

mod cancel;
mod forgotten;
mod trouble;
mod waiting;

use redlatch::CountDownLatch;
use redlatch_behaviours::latch::set;
use redlatch_lua::LATCH;

use crate::prelude::*;

/// Starts an embedded server that knows all scripts, and sets the latch `x`.
async fn set_latch(count: u32) -> (Backend, Client, CountDownLatch) {
    let backend = Backend::embedded();
    backend.preload();
    let (client, latch) = set(&backend, count).await;
    (backend, client, latch)
}

/// Makes the server refuse the next look.
fn refuse_look(backend: &Backend, error: &str) {
    refuse_next(backend, LATCH.look.text, error);
}
