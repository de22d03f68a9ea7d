//! A fair lock on a server that is out of memory: it takes nothing new, and lets go of everything.

use redlatch_behaviours::fair::support::waits;

use crate::prelude::*;

#[track_caller]
fn assert_refused<T>(result: Result<T, Error>) {
    let error = result.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServerFull);
    assert!(error.is_transient() && error.is_not_executed());
}

#[tokio::test(start_paused = true)]
async fn full_server_lets_go_of_everything() {
    let (backend, clients) = embedded::<4>().await;
    let server = backend.embedded_server();
    let (lock, theirs) = (clients[0].fair_lock("x"), clients[3].fair_lock("x"));
    let guard = lock.lock().lease(30 * SECOND).await.unwrap();
    let inner = lock.lock().owner(guard.owner()).await.unwrap();
    let first = waits(&clients[1].fair_lock("x")).await;
    let second = waits(&clients[2].fair_lock("x")).await;
    server.set_full(true);
    assert_refused(theirs.lock().await);
    let busy = theirs.try_lock().await.unwrap();
    assert!(busy.is_none(), "it needs no room");
    assert_refused(theirs.try_lock_for(SECOND).await);
    assert_refused(clients[3].fair_lock("free").lock().await);
    assert_refused(clients[3].fair_lock("free").try_lock().await);
    assert_refused(lock.lock().owner(guard.owner()).await);
    guard.extend(60 * SECOND).await.unwrap();
    let info = lock.info().await.unwrap().unwrap();
    assert!(info.waiters <= 2, "{info:?}");
    lock.waiters().next().await.map(Result::unwrap);
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    clients[2].settled().await;
    assert!(lock.info().await.unwrap().unwrap().waiters <= 1);
    assert_eq!(inner.release().await.unwrap(), Released::StillHeld(1));
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    // The release has removed more than the grant to a waiter adds.
    let first = first.await.unwrap().unwrap();
    assert_eq!(first.release().await.unwrap(), Released::Free);
    clients[1].settled().await;
    assert!(lock.waiters().next().await.is_none(), "it has left");

    server.set_full(false);
    let forced = lock.lock().await.unwrap();
    let waiter = waits(&clients[1].fair_lock("x")).await;
    server.set_full(true);
    assert!(theirs.force_release().await.unwrap());
    let waiter = waiter.await.unwrap().unwrap();
    assert_eq!(waiter.release().await.unwrap(), Released::Free);
    assert_eq!(forced.release().await.unwrap(), Released::Revoked);
    server.set_full(false);
    let guard = theirs.lock().await.unwrap();
    let waiter = waits(&clients[1].fair_lock("x")).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert_nothing_left(&backend, &clients.each_ref()).await;
}
