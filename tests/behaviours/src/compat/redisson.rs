//! The layout of Redisson's `RLock`.

use redlatch::compat::Redisson;

use crate::prelude::*;

behaviours! {
    Cluster:
        hold_of_java_excludes_and_its_message_is_heard,
        forced_end_ends_the_hold_of_anybody,
        old_and_new_are_held_as_one;
    Single:
        hold_is_written_as_java_writes_it,
        lease_of_a_dead_java_process_ends,
        hash_that_is_no_rlock_is_wrong_kind;
}

const JAVA: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee:33";
const CHANNEL: &str = "redisson_lock__channel:{x}";

/// Takes the name as Redisson does.
fn java_holds(backend: &Backend, lease: &str) {
    backend.command(&["HINCRBY", "x", JAVA, "1"]);
    backend.command(&["PEXPIRE", "x", lease]);
}

/// Frees the name as Redisson does.
fn java_releases(backend: &Backend) {
    backend.command(&["DEL", "x"]);
    backend.command(&["PUBLISH", CHANNEL, "0"]);
}

async fn hold_of_java_excludes_and_its_message_is_heard(backend: &Backend, client: Client) {
    java_holds(backend, "60000");
    let lock = Redisson::new(&client, "x");
    assert!(lock.try_lock().await.unwrap().is_none());
    let info = lock.info().await.unwrap().unwrap();
    assert_eq!((info.owner.as_str(), info.count), (JAVA, 1));
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.lock().await.unwrap() });
    backend.pass(300 * MS).await;
    assert!(!waiting.is_finished());
    assert_eq!(backend.subscribers(CHANNEL), 1);
    java_releases(backend);
    let guard = waiting.await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
}

async fn hold_is_written_as_java_writes_it(backend: &Backend, client: Client) {
    let guard = Redisson::new(&client, "x").lock().await.unwrap();
    assert_eq!(guard.token(), None);
    let owner = Redisson::owner_text(guard.owner());
    assert_eq!(backend.hash("x"), [(owner, "1".to_owned())].into());
    assert!(backend.ends("x"));
    drop(guard);
    client.settled().await;
    assert!(!backend.keys().iter().any(|key| key == "x"));
}

async fn lease_of_a_dead_java_process_ends(backend: &Backend, client: Client) {
    let start = Instant::now();
    java_holds(backend, "700");
    let guard = Redisson::new(&client, "x").lock().await.unwrap();
    assert!(start.elapsed() >= 690 * MS);
    guard.release().await.unwrap();
}

async fn forced_end_ends_the_hold_of_anybody(backend: &Backend, client: Client) {
    let lock = Redisson::new(&client, "x");
    assert!(!lock.force_release().await.unwrap());
    java_holds(backend, "60000");
    assert!(lock.force_release().await.unwrap());
    let guard = lock.try_lock().await.unwrap().unwrap();
    assert!(lock.force_release().await.unwrap());
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Revoked));
    assert!(lock.try_lock().await.unwrap().is_some());
}

async fn hash_that_is_no_rlock_is_wrong_kind(backend: &Backend, client: Client) {
    let lock = Redisson::new(&client, "x");
    for create in [
        &["HSET", "x", "mode", "write", "a:1:write", "1"][..],
        &["HSET", "x", "field", "value"],
        &["SET", "x", "text"],
    ] {
        backend.command(create);
        for error in [
            lock.lock().await.unwrap_err(),
            lock.info().await.unwrap_err(),
            lock.force_release().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::WrongKind, "{create:?}: {error}");
        }
        assert_eq!(backend.keys(), ["x"], "{create:?}");
        backend.command(&["DEL", "x"]);
    }
}

async fn old_and_new_are_held_as_one(backend: &Backend, client: Client) {
    let (old, new) = (Redisson::new(&client, "x"), client.lock("x"));
    let both = client.multi_lock(&[&new, &old]);
    java_holds(backend, "60000");
    assert!(both.try_lock().await.unwrap().is_none());
    let waiter = both.clone();
    let waiting = tokio::spawn(async move { waiter.lock().await.unwrap() });
    backend.pass(300 * MS).await;
    java_releases(backend);
    let guard = waiting.await.unwrap();
    assert!(guard.token("x").is_some());
    assert_eq!(backend.hash("x").len(), 1);
    for (_, released) in guard.release().await.unwrap() {
        assert_eq!(released, Released::Free);
    }
}
