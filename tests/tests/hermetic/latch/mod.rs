//! The countdown latch.

mod cancel;
mod forgotten;
mod trouble;
mod waiting;

use redlatch::{Client, CountDownLatch, runtime::ServerError};
use redlatch_behaviours::{latch::set, prelude::*};
use redlatch_embedded::calls;
use redlatch_lua::LATCH;

/// Starts an embedded server that knows all scripts, and sets the latch `x`.
async fn set_latch(count: u32) -> (Backend, Client, CountDownLatch) {
    let backend = Backend::embedded();
    backend.preload();
    let (client, latch) = set(&backend, count).await;
    (backend, client, latch)
}

/// Makes the server refuse the next look.
fn refuse_look(backend: &Backend, error: &str) {
    let is_look = calls::of_script(LATCH.look.text);
    backend
        .embedded_server()
        .fail_next(is_look, ServerError::parse(error));
}
