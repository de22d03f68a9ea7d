//! Connecting while something is in the way for a moment.

use redlatch::runtime::{Command, ServerError};

use crate::prelude::*;

fn is_subscription(command: &Command) -> bool {
    command.args().next() == Some(b"SUBSCRIBE")
}

#[tokio::test(start_paused = true)]
async fn connect_retries_a_subscription_that_is_refused_for_a_moment() {
    let backend = Backend::embedded();
    for _ in 0..3 {
        let down = ServerError::parse("CLUSTERDOWN The cluster is down");
        backend.embedded_server().fail_next(is_subscription, down);
    }
    let client = backend.client().await;
    assert_tables_empty(&client).await;
}

/// It may only look, which needs no write. Its record is gone with it.
#[tokio::test(start_paused = true)]
async fn client_without_the_check_comes_and_goes_while_writes_are_refused() {
    let backend = Backend::embedded();
    let server = backend.embedded_server();
    for short in [true, false] {
        server.set_short_of_replicas(short);
        let start = Instant::now();
        let client = backend.builder().self_check(false).connect().await.unwrap();
        assert!(!client.lock("x").is_locked().await.unwrap());
        client.close_now().await;
        assert!(start.elapsed() < 500 * MS, "{:?}", start.elapsed());
        assert!(server.keys().is_empty(), "{:?}", server.dump());
    }
}
