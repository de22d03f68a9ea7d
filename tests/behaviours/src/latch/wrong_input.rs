//! Wrong input gets a typed error, and nothing is half done.

use redlatch::{CountDownLatch, ErrorKind};

use super::passed;
use crate::prelude::*;

behaviours! {
    Single:
        too_many_waiters_are_refused,
        close_ends_waits_and_refuses_calls;
}

async fn too_many_waiters_are_refused(backend: &Backend) {
    let client = backend.builder().max_waiters(2).connect().await.unwrap();
    let latch = client.count_down_latch("x");
    latch.try_set_count(1).await.unwrap();
    let waiters = [(); 2].map(|()| super::waiting(latch.clone()));
    super::listening(&client, 2).await;
    assert_fails(latch.wait().await, ErrorKind::TooManyWaiters);
    assert_eq!(
        latch.count_down(1).await.unwrap(),
        0,
        "counting is no waiting"
    );
    passed(waiters).await;
    assert_tables_empty(&client).await;
}

async fn close_ends_waits_and_refuses_calls(backend: &Backend) {
    let (client, other) = (backend.client().await, backend.client().await);
    let latch = client.count_down_latch("x");
    latch.try_set_count(1).await.unwrap();
    let waiters = [(); 3].map(|()| super::waiting(latch.clone()));
    super::listening(&client, 3).await;
    client.close(Duration::from_secs(1)).await;
    for waiter in waiters {
        assert_fails(waiter.await.unwrap(), ErrorKind::Closed);
    }
    assert_eq!(errors(&latch).await, [ErrorKind::Closed; 8]);
    assert_tables_empty(&client).await;
    assert_eq!(other.count_down_latch("x").count().await.unwrap(), 1);
}

/// What each call fails with.
async fn errors(latch: &CountDownLatch) -> [ErrorKind; 8] {
    let second = Duration::from_secs(1);
    [
        latch.try_set_count(1).await.unwrap_err().kind(),
        latch.count_down(1).await.unwrap_err().kind(),
        latch.count().await.unwrap_err().kind(),
        latch.info().await.unwrap_err().kind(),
        latch.wait().await.unwrap_err().kind(),
        latch.wait_for(second).await.unwrap_err().kind(),
        latch.count_down_and_wait(1).await.unwrap_err().kind(),
        latch.delete().await.unwrap_err().kind(),
    ]
}
