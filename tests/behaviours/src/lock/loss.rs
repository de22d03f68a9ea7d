//! Losing a hold: told in time, whatever happens.

use std::future::pending;

use crate::{
    holds::{Fixed, Renewed, all, key},
    prelude::*,
};

behaviours! {
    Everywhere:
        renewed_hold_outlives_its_lease,
        renewal_notices_a_deleted_key_and_does_not_create_it;
    Cluster:
        a_fixed_lease_ends_and_says_so_before_the_key_does;
    Single:
        value_of_another_type_in_its_place_is_told_at_the_next_renewal,
        run_ends_with_the_hold,
        extend_never_shortens_a_lease,
        ending_comes_before_the_loss_of_a_hold_that_nothing_renews,
        ending_of_a_renewed_hold_waits_for_trouble,
        ending_comes_when_the_client_closes;
}

async fn a_fixed_lease_ends_and_says_so_before_the_key_does(client: Client) {
    for (kind, guard) in all(&client, Fixed(300 * MS)).await {
        assert_eq!(guard.lost().await, LossCause::Expired, "{kind}");
        assert_eq!(guard.state(), HoldState::Lost(LossCause::Expired));
        assert_eq!(guard.remaining(), Duration::ZERO);
        // What is lost stays lost.
        let extended = guard.extend(SECOND).await;
        assert_fails(extended, ErrorKind::Lost(LossCause::Expired));
    }
}

async fn renewed_hold_outlives_its_lease(backend: &Backend, client: Client) {
    let holds = all(&client, Renewed(SECOND)).await;
    assert_eq!(client.tables().renewals, client.tables().holds);
    backend.pass(2_500 * MS).await;
    assert!(client.lock("lock").is_locked().await.unwrap());
    for (kind, guard) in holds {
        guard.check().unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Free, "{kind}");
    }
}

// L14
async fn renewal_notices_a_deleted_key_and_does_not_create_it(backend: &Backend, client: Client) {
    let holds = all(&client, Renewed(SECOND)).await;
    backend.command(&["FLUSHALL"]);
    for (kind, guard) in &holds {
        assert_eq!(guard.lost().await, LossCause::Forgotten, "{kind}");
    }
    assert_eq!(backend.keys(), [""; 0]);
    assert_eq!(client.tables().renewals, 0);
}

async fn value_of_another_type_in_its_place_is_told_at_the_next_renewal(backend: &Backend) {
    let client = backend.client().await;
    let lease = 6 * SECOND;
    let holds = all(&client, Renewed(lease)).await;
    for (kind, _) in &holds {
        let key = &key(kind);
        backend.command(&["DEL", key]);
        // To one kind, any string is a hold.
        match *kind {
            "set-nx" => backend.command(&["HSET", key, "field", "mine"]),
            _ => backend.command(&["SET", key, "mine"]),
        }
    }
    let start = Instant::now();
    for (kind, guard) in holds {
        assert_eq!(guard.lost().await, LossCause::Forgotten, "{kind}");
        assert!(start.elapsed() < lease / 2, "{kind}");
        let released = guard.release().await.unwrap();
        assert_eq!(released, Released::Forgotten, "{kind}");
        match kind {
            "set-nx" => assert_eq!(backend.hash(kind)["field"], "mine"),
            _ => assert_eq!(backend.string(&key(kind)).unwrap(), "mine"),
        }
        assert!(!backend.ends(&key(kind)), "nothing was changed: {kind}");
    }
}

async fn run_ends_with_the_hold(client: Client) {
    let holds = all(&client, Fixed(SECOND)).await;
    for (_, guard) in &holds {
        assert_eq!(guard.run(async { 7 }).await.unwrap(), 7);
    }
    for (_, guard) in &holds {
        let lost = ErrorKind::Lost(LossCause::Expired);
        assert_fails(guard.run(pending::<()>()).await, lost);
        let work = async { panic!("a lost hold runs nothing") };
        assert_fails::<()>(guard.run(work).await, lost);
    }
}

async fn ending_comes_before_the_loss_of_a_hold_that_nothing_renews(client: Client) {
    let holds = all(&client, Fixed(3 * SECOND)).await.into_iter();
    join_all(holds.map(async |(_, guard)| {
        guard.ending(SECOND).await;
        guard.check().unwrap();
        assert!(guard.remaining() <= SECOND);
        guard.extend(6 * SECOND).await.unwrap();
        guard.ending(SECOND).await;
        guard.check().unwrap();
        assert!(guard.remaining() <= SECOND, "the extension counts");
        guard.ending(10 * SECOND).await;
        guard.lost().await;
        guard.ending(Duration::ZERO).await;
    }))
    .await;
}

async fn extend_never_shortens_a_lease(client: Client) {
    for (kind, guard) in all(&client, Fixed(10 * SECOND)).await {
        for span in [60 * SECOND, SECOND] {
            guard.extend(span).await.unwrap();
            assert!(guard.remaining() > 50 * SECOND, "{kind}");
            let of_lock = client.lock("lock").remaining().await.unwrap();
            assert!(kind != "lock" || of_lock.unwrap() > 50 * SECOND);
        }
    }
}

async fn ending_of_a_renewed_hold_waits_for_trouble(backend: &Backend, lock: Lock) {
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    let waited = timeout(6 * SECOND, guard.ending(SECOND)).await;
    waited.expect_err("renewals move the deadline");
    let ending = guard.ending(SECOND);
    backend.command(&["DEL", "redlatch:{x}"]);
    ending.await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Forgotten));
    let ending = guard.ending(SECOND);
    drop(guard);
    let waited = timeout(SECOND, ending).await;
    waited.expect_err("nothing ends any more");
}

async fn ending_comes_when_the_client_closes(client: Client) {
    let guard = client.lock("x").lock().await.unwrap();
    let ending = guard.ending(SECOND);
    let closing = tokio::spawn(async move { client.close(20 * SECOND).await });
    ending.await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Closed));
    drop(guard);
    closing.await.unwrap();
}
