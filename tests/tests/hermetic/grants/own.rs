//! Grants to a waiter of the same client, which learns of them from the reply.

use tokio::task::yield_now;

use super::*;

/// How a hold ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Released,
    Dropped,
    /// It is that of the last reader.
    ReadReleased,
}

#[tokio::test(start_paused = true)]
async fn waiter_learns_from_the_reply_to_the_release() {
    let reads = (Kind::Write, End::ReadReleased);
    for (kind, end) in each(End::Released, End::Dropped).chain([reads]) {
        let (backend, [client], mut guard) = held(kind).await;
        if end == End::ReadReleased {
            guard.release().await.unwrap();
            let read = client.read_write_lock("x").read();
            guard = read.await.unwrap().into();
        }
        let waiter = queued(&backend, &client, kind).await;
        backend.embedded_server().drop_messages(9);
        let before = backend.script_calls();
        let next = soon((kind, end), async {
            if end == End::Dropped {
                drop(guard);
            } else {
                assert_eq!(guard.release().await.unwrap(), Released::Free);
            }
            waiter.await
        });
        let next = next.await;
        assert_eq!(backend.script_calls() - before, 1, "{kind:?}, {end:?}");
        assert!(!next.is_after_abandonment());
        assert_eq!(next.release().await.unwrap(), Released::Free);
        // No late message makes the client look for a waiter that it does not have.
        backend.pass(SECOND).await;
        assert_eq!(backend.script_calls() - before, 2, "{kind:?}, {end:?}");
        assert_tables_empty(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_release_tells_the_waiter_if_the_first_reply_is_lost() {
    for (kind, how) in each(LostReply::Cuts, LostReply::Hangs) {
        let (backend, [_client], guard, waiter) = contended(kind).await;
        lose_reply(&backend, kind.release_script(), how);
        let next = within(4 * SECOND, (kind, how), async {
            let released = guard.release().await.unwrap();
            // A pool keeps nothing of a hold that is over.
            let known = matches!(released, Released::Free | Released::Unconfirmed);
            assert!(known, "{kind:?}: {released:?}");
            waiter.await.unwrap()
        });
        let next = next.await;
        assert!(!next.is_after_abandonment());
        next.release().await.unwrap();
    }
}

/// The reply to a release whose future was dropped serves nobody. The releaser sends it again.
#[tokio::test(start_paused = true)]
async fn dropped_release_serves_the_waiter() {
    for kind in KINDS {
        let (backend, [client], guard, waiter) = contended(kind).await;
        let before = backend.script_calls();
        {
            let mut releasing = pin!(guard.release());
            assert!(poll!(&mut releasing).is_pending());
            while backend.script_calls() == before {
                yield_now().await;
            }
        }
        soon(kind, waiter).await.release().await.unwrap();
        assert_tables_empty(&client).await;
    }
}

/// The server stops right after a release has granted, until the lease of that release is over. The
/// client gives the release up, and a waiter asks.
#[tokio::test(start_paused = true)]
async fn release_that_is_given_up_makes_the_first_waiter_ask() {
    let (backend, [client], guard) = held(Kind::Fair).await;
    guard.release().await.unwrap();
    let lock = client.fair_lock("x");
    let guard = lock.lock().lease(SECOND).await.unwrap();
    let waiter = queued(&backend, &client, Kind::Fair).await;
    lose_reply(&backend, Kind::Fair.release_script(), LostReply::Hangs);
    drop(guard);
    let next = within(4 * SECOND, "the waiter", waiter).await.unwrap();
    assert!(!next.is_after_abandonment());
    next.release().await.unwrap();
}

/// The caller waits for no poll of the waiter, which may be in the same task.
#[tokio::test(start_paused = true)]
async fn release_ends_although_nobody_polls_the_waiter() {
    for kind in KINDS {
        let (backend, [client], guard) = held(kind).await;
        let mut waiting = pin!(kind.acquire(&client));
        polled_into_the_queue(&backend, waiting.as_mut()).await;
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        let next = waiting.await.unwrap();
        assert_eq!(next.release().await.unwrap(), Released::Free);
    }
}

/// A waiter that left right before the grant gives it to the next one.
#[tokio::test(start_paused = true)]
async fn grant_to_a_waiter_that_has_gone_passes_on() {
    for kind in KINDS {
        let (backend, [client], guard, leaves) = contended(kind).await;
        let next = queued(&backend, &client, kind).await;
        let releasing = tokio::spawn(guard.release());
        leaves.abort();
        let next = soon(kind, next).await;
        assert!(releasing.await.unwrap().unwrap().is_clean());
        next.release().await.unwrap();
        assert_tables_empty(&client).await;
    }
}

/// Another client ends the hold. Only a message can tell the waiter.
#[tokio::test(start_paused = true)]
async fn revoked_hold_of_a_semaphore_serves_a_waiter_of_its_client() {
    let (backend, [_client], guard, waiter) = contended(Kind::Semaphore).await;
    let other = backend.client().await.semaphore("x");
    let holders = other.holders().await.unwrap();
    let next = soon("the waiter", async {
        assert!(other.revoke(&holders[0].id).await.unwrap());
        waiter.await
    });
    let next = next.await;
    drop(guard);
    next.release().await.unwrap();
}

/// Nobody makes a holder of a waiter by a wrong word in a reply: the waiter asks.
#[tokio::test(start_paused = true)]
async fn waiter_that_is_told_to_hold_asks() {
    let (backend, [_client], guard, waiter) = contended(Kind::Fair).await;
    // Another client ends the hold, so that the messages are lost and nothing tells of the grant.
    backend.embedded_server().drop_messages(2);
    let other = backend.client().await;
    assert!(other.fair_lock("x").force_release().await.unwrap());
    let before = backend.script_calls();
    let next = soon("the waiter", async {
        // The release finds the later hold of its own client.
        assert_eq!(guard.release().await.unwrap(), Released::Revoked);
        waiter.await
    });
    let next = next.await;
    let calls = backend.script_calls() - before;
    assert_eq!(calls, 2, "the release and a request");
    assert!(next.is_after_abandonment());
    next.release().await.unwrap();
}
