//! Connecting while something is in the way for a moment.

use redlatch::runtime::{Command, ServerError};
use redlatch_tests::backend::{Backend, assert_tables_empty};

fn is_subscription(command: &Command) -> bool {
    command.args().next() == Some(b"SUBSCRIBE")
}

#[tokio::test(start_paused = true)]
async fn connect_retries_a_subscription_that_is_refused_for_a_moment() {
    let backend = Backend::embedded();
    let Backend::Embedded { server, .. } = &backend else {
        unreachable!("it was just made");
    };
    for _ in 0..3 {
        let down = ServerError::parse("CLUSTERDOWN The cluster is down");
        server.fail_next(is_subscription, down);
    }
    let client = backend.client().await;
    assert_tables_empty(&client).await;
}
