//! Grants, where the kinds differ.

use super::*;

#[tokio::test(start_paused = true)]
async fn granted_hold_with_a_fixed_lease_is_renewed_once() {
    let (backend, clients, guard) = held::<2>(Kind::Fair).await;
    let acquire = clients[1].fair_lock("x").lock().lease(10 * SECOND);
    let waiting = queues(&backend, acquire.into_future()).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    let before = backend.script_calls();
    backend.pass(SECOND).await;
    assert_eq!(backend.script_calls() - before, 1);
    assert!((9_000..=10_600).contains(&Kind::Fair.lasts(&backend)));
    backend.pass(7 * SECOND).await;
    assert_eq!(backend.script_calls() - before, 1, "it is not renewed");
    assert_eq!(next.state(), HoldState::Held);
    backend.pass(3 * SECOND).await;
    assert_eq!(next.state(), HoldState::Lost(LossCause::Expired));
}

/// The reply that dates the server's clock lay in the socket for 3 s. It gives no second more.
#[tokio::test(start_paused = true)]
async fn delayed_reply_does_not_prolong_a_granted_hold() {
    let (backend, clients, guard) = held::<2>(Kind::Fair).await;
    let server = backend.embedded_server();
    let acquire = clients[1].fair_lock("x").lock().lease(20 * SECOND);
    let waiting = queues(&backend, acquire.into_future()).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.remaining() <= Duration::from_millis(Kind::Fair.lasts(&backend)));
    server.stop_for(20 * SECOND);
    let ends = Kind::Fair.ends(&backend);
    next.lost().await;
    assert!(server.now().millis() < ends);
}

/// Waiters that need the whole lease, or that nobody can tell, are called and ask.
#[tokio::test(start_paused = true)]
async fn waiter_without_an_order_is_called() {
    for (kind, variant) in [
        (Kind::Fair, 0),
        (Kind::Fair, 1),
        (Kind::Fair, 2),
        (Kind::Write, 0),
        (Kind::Write, 1),
        (Kind::Semaphore, 2),
    ] {
        let (backend, clients, guard) = held::<2>(kind).await;
        let (fair, write) = (clients[1].fair_lock("x"), clients[1].read_write_lock("x"));
        let semaphore = clients[1].semaphore("x");
        let acquire = match (kind, variant) {
            (Kind::Fair, 0) => acquiring(fair.lock().lease(3_900 * MS)),
            (Kind::Fair, 1) => acquiring(fair.lock().strategy(POLL)),
            (Kind::Fair, _) => acquiring(fair.lock().whole_lease()),
            (Kind::Semaphore, _) => acquiring(semaphore.acquire().whole_lease()),
            (_, 0) => acquiring(write.write().lease(3_900 * MS)),
            _ => acquiring(write.write().strategy(POLL)),
        };
        let waiting = queues(&backend, acquire).await;
        let words = if kind == Kind::Write { 3 } else { 4 };
        assert_eq!(first_entry(&backend).len(), words, "{kind:?}, {variant}");
        guard.release().await.unwrap();
        let called = backend.hash(KEY).contains_key("y");
        assert!(called || kind == Kind::Semaphore, "{kind:?}, {variant}");
        let next = waiting.await.unwrap();
        if variant == 2 {
            assert!(kind.lasts(&backend) > 29_000);
        }
        next.release().await.unwrap();
    }
}
