//! Guards of one hold with different leases, and what ends the hold's renewal.

use crate::prelude::*;

/// Short ones alone, or all sorts of them.
#[tokio::test(start_paused = true)]
async fn re_entries_neither_stop_nor_postpone_renewal() {
    for (pause, sorts) in [(500 * MS, 1), (300 * MS, 3)] {
        let (backend, [client, other]) = embedded().await;
        let lock = client.lock("x");
        let outer = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
        for i in 0..100_u32 {
            backend.pass(pause).await;
            let request = lock.lock().owner(outer.owner());
            let inner = match i % sorts {
                0 => request.lease(50 * MS),
                1 => request.renewed_lease(SECOND),
                _ => request.renewed_lease(3 * SECOND),
            };
            let inner = inner.await.unwrap();
            assert_eq!(outer.state(), HoldState::Held);
            assert_eq!(inner.release().await.unwrap(), Released::StillHeld(1));
            assert!(other.lock("x").try_lock().await.unwrap().is_none());
        }
        assert_eq!(outer.release().await.unwrap(), Released::Free);
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn max_hold_of_one_guard_does_not_end_renewal_for_another() {
    let (backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let g1 = lock.lock().renewed_lease(6 * SECOND).max_hold(SECOND);
    let g1 = g1.await.unwrap();
    let g2 = lock.lock().owner(g1.owner()).renewed_lease(SECOND);
    let g2 = g2.await.unwrap();
    for _ in 0..200 {
        backend.pass(100 * MS).await;
        g2.check().unwrap();
        assert!(lock.is_held_by(g2.owner()).await.unwrap());
    }
    assert_eq!(client.tables().renewals, 1);
    drop(g2);
    let start = Instant::now();
    assert_eq!(g1.lost().await, LossCause::Expired);
    // Alone, a guard past its max_hold is renewed no more.
    assert!(start.elapsed() <= 6 * SECOND);
    assert_eq!(client.tables().renewals, 0);
    // Where no other guard leaves, the renewal itself finds out.
    let alone = client.lock("y").lock().renewed_lease(SECOND);
    let alone = alone.max_hold(SECOND).await.unwrap();
    let start = Instant::now();
    assert_eq!(alone.lost().await, LossCause::Expired);
    assert!(start.elapsed() < 3 * SECOND);
    assert_eq!(client.tables().renewals, 0);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_renewal_stays_forbidden() {
    let (_backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let outer = lock.lock().renewed_lease(2 * SECOND).await.unwrap();
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    let ends = lock.remaining().await.unwrap().unwrap();
    let start = Instant::now();
    assert!(lock.force_release().after_lease().await.unwrap());
    inner.release().await.unwrap();
    let again = lock.try_lock().owner(outer.owner()).await.unwrap().unwrap();
    // Neither an inner release nor a re-entry makes it longer.
    assert!(lock.remaining().await.unwrap().unwrap() <= ends);
    assert_eq!(again.lost().await, LossCause::Revoked);
    assert!(start.elapsed() < ends);
    assert!(outer.check().is_err());
    let next = client.lock("x").lock().await.unwrap();
    assert!(start.elapsed() >= ends && start.elapsed() < ends + SECOND);
    assert!(next.token() > outer.token());
    next.extend(60 * SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn last_named_lease_counts() {
    let (_backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let guard = lock.lock().lease(10 * MS).renewed_lease(30 * SECOND);
    let guard = guard.await.unwrap();
    assert!(guard.remaining() > 29 * SECOND);
    assert_eq!(client.tables().renewals, 1);
    let short = lock.lock().renewed_lease(30 * SECOND).lease(10 * MS);
    assert_fails(short.await, ErrorKind::InvalidLease);
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_after_max_hold_is_renewed_again() {
    let (backend, [client]) = embedded().await;
    let lock = client.lock("x");
    let outer = lock.lock().max_hold(SECOND).await.unwrap();
    backend.pass(12 * SECOND).await;
    let inner = lock.lock().owner(outer.owner()).await.unwrap();
    backend.pass(40 * SECOND).await;
    assert_eq!(inner.state(), HoldState::Held);
}
