//! The layout of redis-py, redsync, redislock, node-redlock and rslock.

use redlatch::compat::SetNx;

use crate::prelude::*;

behaviours! {
    Cluster:
        waiters_of_this_family_are_told,
        old_and_new_are_held_as_one,
        names_with_a_tag_are_kept_as_they_are;
    Single:
        value_of_another_library_excludes,
        lease_of_a_dead_holder_ends,
        value_of_a_later_holder_stays,
        value_of_another_type_is_wrong_kind;
}

async fn value_of_another_library_excludes(backend: &Backend, client: Client) {
    backend.command(&["SET", "x", "token", "NX", "PX", "60000"]);
    let lock = SetNx::redis_py(&client, "x");
    assert!(lock.try_lock().await.unwrap().is_none());
    let info = lock.info().await.unwrap().unwrap();
    assert_eq!(info.value, b"token");
    assert!(info.remaining.unwrap() > 30 * SECOND);
    assert_busy(backend, lock.try_lock_for(300 * MS).await);
    backend.command(&["DEL", "x"]);
    let start = Instant::now();
    let guard = lock.lock().await.unwrap();
    assert!(start.elapsed() < backend.at_leisure(SECOND));
    assert_eq!(guard.release().await.unwrap(), Released::Free);
}

async fn waiters_of_this_family_are_told(backend: &Backend, [ada, bob]: [Client; 2]) {
    let guard = SetNx::new(&ada, "x").lock().await.unwrap();
    // It would look again after an hour, or when the lease ends.
    let lock = SetNx::new(&bob, "x").retry_delay(3600 * SECOND);
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    backend.pass(300 * MS).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(ada.lock("y").try_lock().await.unwrap().is_some());
    next.release().await.unwrap();
}

async fn lease_of_a_dead_holder_ends(backend: &Backend, client: Client) {
    let start = Instant::now();
    backend.command(&["SET", "x", "dead", "NX", "PX", "700"]);
    let guard = SetNx::new(&client, "x").lock().await.unwrap();
    assert!(start.elapsed() >= 690 * MS);
    guard.release().await.unwrap();
}

async fn value_of_a_later_holder_stays(backend: &Backend, client: Client) {
    let guard = SetNx::new(&client, "x").lock().await.unwrap();
    backend.command(&["SET", "x", "theirs"]);
    let ended = guard.extend(60 * SECOND).await;
    assert_fails(ended, ErrorKind::Lost(LossCause::Taken));
    assert_eq!(guard.release().await.unwrap(), Released::TakenOver);
    assert_eq!(backend.string("x").unwrap(), "theirs");
    assert!(!backend.ends("x"), "nothing was changed");
}

async fn value_of_another_type_is_wrong_kind(backend: &Backend, client: Client) {
    backend.command(&["HSET", "x", "field", "1"]);
    let lock = SetNx::new(&client, "x");
    for error in [
        lock.lock().await.unwrap_err(),
        lock.info().await.unwrap_err(),
        client.multi_lock(&[&lock]).lock().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
    }
    assert_eq!(backend.hash("x").len(), 1);
    assert_eq!(backend.keys(), ["x"]);
}

async fn old_and_new_are_held_as_one(backend: &Backend, [client, other]: [Client; 2]) {
    let (old, new) = (SetNx::node_redlock(&client, "x"), client.lock("x"));
    let both = client.multi_lock(&[&old, &new]);
    let guard = both.lock().await.unwrap();
    assert_eq!(guard.members().len(), 2);
    assert!(guard.token("x").is_some());
    assert!(SetNx::new(&other, "x").try_lock().await.unwrap().is_none());
    assert!(other.lock("x").try_lock().await.unwrap().is_none());
    for (_, released) in guard.release().await.unwrap() {
        assert_eq!(released, Released::Free);
    }
    backend.command(&["SET", "x", "theirs", "NX", "PX", "60000"]);
    assert!(both.try_lock().await.unwrap().is_none());
    assert_tables_empty(&client).await;
    assert!(other.lock("x").try_lock().await.unwrap().is_some());
}

async fn names_with_a_tag_are_kept_as_they_are(backend: &Backend, client: Client) {
    for name in ["{t}x", "x{t}", "x:{t}:y"] {
        let guard = SetNx::new(&client, name).lock().await.unwrap();
        assert!(backend.string(name).is_some(), "{name}");
        guard.release().await.unwrap();
    }
}
