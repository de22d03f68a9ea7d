//! Wrong input gets a typed error, and nothing is half done.

use std::time::Duration;

use redlatch::{Client, ErrorKind};
use redlatch_tests::backend::{Backend, assert_tables_empty};

behaviours! {
    Single:
        foreign_type_under_the_key_is_a_typed_error,
        owner_of_another_client_is_refused,
        too_many_waiters_are_refused;
}

async fn foreign_type_under_the_key_is_a_typed_error(backend: &Backend) {
    let client = backend.client().await;
    backend.command(&["SET", "redlatch:{x}", "mine"]);
    let lock = client.lock("x");
    assert_eq!(
        lock.lock().await.map(drop).unwrap_err().kind(),
        ErrorKind::WrongKind
    );
    assert_eq!(
        lock.try_lock().await.map(drop).unwrap_err().kind(),
        ErrorKind::WrongKind
    );
    assert_eq!(lock.info().await.unwrap_err().kind(), ErrorKind::WrongKind);
    assert_eq!(
        lock.force_release().await.unwrap_err().kind(),
        ErrorKind::WrongKind
    );
    assert_tables_empty(&client).await;
    assert_eq!(backend.keys(), ["redlatch:{x}"]);
}

async fn owner_of_another_client_is_refused(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let owner = b.owner();
    let error = a
        .lock("x")
        .lock()
        .owner(&owner)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignOwner);
    unharmed(backend, &a).await;
    let guard = owner
        .scope(async { a.lock("x").lock().await.unwrap() })
        .await;
    assert_eq!(
        guard.owner().client(),
        a.id(),
        "a scope of another client says nothing about this one"
    );
}

async fn too_many_waiters_are_refused(backend: &Backend) {
    let client = backend.builder().max_waiters(1).connect().await.unwrap();
    let lock = client.lock("x");
    let _guard = lock.lock().await.unwrap();
    let waiter = lock.clone();
    let waiter = tokio::spawn(async move { waiter.try_lock_for(Duration::from_secs(60)).await });
    redlatch_tests::wait::eventually("the waiter", redlatch_tests::wait::GENEROUS, async || {
        client.tables().waiters == 1
    })
    .await;
    let error = lock.try_lock().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyWaiters);
    assert!(error.is_transient());
    waiter.abort();
}

/// Nothing was sent that left a trace.
async fn unharmed(backend: &Backend, client: &Client) {
    assert_tables_empty(client).await;
    assert_eq!(backend.keys(), [""; 0]);
}
