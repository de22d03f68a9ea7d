//! Wrong input gets a typed error, and nothing is half done.

use redlatch::ErrorKind;

use crate::prelude::*;

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
    assert_fails(lock.lock().await, ErrorKind::WrongKind);
    assert_fails(lock.try_lock().await, ErrorKind::WrongKind);
    assert_fails(lock.info().await, ErrorKind::WrongKind);
    assert_fails(lock.force_release().await, ErrorKind::WrongKind);
    assert_tables_empty(&client).await;
    assert_eq!(backend.keys(), ["redlatch:{x}"]);
}

async fn owner_of_another_client_is_refused(backend: &Backend) {
    let (a, b) = (backend.client().await, backend.client().await);
    let owner = b.owner();
    let lock = a.lock("x");
    assert_fails(lock.lock().owner(&owner).await, ErrorKind::ForeignOwner);
    // Nothing was sent that left a trace.
    assert_tables_empty(&a).await;
    assert_eq!(backend.keys(), [""; 0]);
    // A scope of another client says nothing about this one.
    let guard = owner.scope(async { lock.lock().await.unwrap() }).await;
    assert_eq!(guard.owner().client(), a.id());
}

async fn too_many_waiters_are_refused(backend: &Backend) {
    let client = backend.builder().max_waiters(1).connect().await.unwrap();
    let lock = client.lock("x");
    let _guard = lock.lock().await.unwrap();
    let waiter = tokio::spawn(lock.try_lock_for(60 * SECOND).into_future());
    let waits = async || client.tables().waiters == 1;
    wait_for("the waiter", waits).await;
    let error = lock.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooManyWaiters);
    assert!(error.is_transient());
    waiter.abort();
}
