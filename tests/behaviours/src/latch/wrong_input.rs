//! Wrong input gets a typed error, and nothing is half done.

use std::time::Duration;

use redlatch::{CountDownLatch, ErrorKind};
use redlatch_tests::backend::{Backend, assert_tables_empty};

behaviours! {
    Single:
        foreign_type_under_the_key_is_a_typed_error,
        name_of_another_kind_is_a_typed_error,
        lock_and_latch_of_one_name_are_typed_errors,
        too_many_waiters_are_refused,
        close_ends_waits_and_refuses_calls;
}

async fn foreign_type_under_the_key_is_a_typed_error(backend: &Backend) {
    let client = backend.client().await;
    backend.command(&["SET", "redlatch:{x}", "mine"]);
    let latch = client.count_down_latch("x");
    assert_eq!(errors(&latch).await, [ErrorKind::WrongKind; 8]);
    assert_eq!(backend.keys(), ["redlatch:{x}"]);
    assert_tables_empty(&client).await;
}

async fn name_of_another_kind_is_a_typed_error(backend: &Backend) {
    let client = backend.client().await;
    backend.command(&["HSET", "redlatch:{x}", "k", "latch:2", "c", "3"]);
    let latch = client.count_down_latch("x");
    assert_eq!(errors(&latch).await, [ErrorKind::WrongKind; 8]);
    let error = latch.wait().await.unwrap_err();
    assert!(error.to_string().contains("latch:2"), "{error}");
    assert_eq!(backend.keys(), ["redlatch:{x}"]);
    assert_tables_empty(&client).await;
}

async fn lock_and_latch_of_one_name_are_typed_errors(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    let latch = client.count_down_latch("x");
    assert_eq!(errors(&latch).await, [ErrorKind::WrongKind; 8]);
    guard.release().await.unwrap();
    client.count_down_latch("y").try_set_count(1).await.unwrap();
    let error = client.lock("y").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind);
}

async fn too_many_waiters_are_refused(backend: &Backend) {
    let client = backend.builder().max_waiters(2).connect().await.unwrap();
    let latch = client.count_down_latch("x");
    latch.try_set_count(1).await.unwrap();
    let waiters = [(); 2].map(|()| super::waiting(latch.clone()));
    super::listening(&client, 2).await;
    let error = latch.wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyWaiters);
    assert_eq!(
        latch.count_down(1).await.unwrap(),
        0,
        "counting is no waiting"
    );
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
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
        let error = waiter.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
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
