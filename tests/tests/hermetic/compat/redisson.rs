//! The layout of Redisson's `RLock`.

use std::time::Duration;

use redlatch::{ErrorKind, HoldState, LossCause, Released, compat::Redisson, runtime::Value};
use redlatch_embedded::{LostReply, calls};
use redlatch_lua::REDISSON;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    copies::Copies,
};
use tokio::time::Instant;

use super::other;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

const JAVA: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee:33";
const CHANNEL: &str = "redisson_lock__channel:{x}";
const SIDE: &str = "redlatch:redisson?{x}{}";

/// Takes the name as Redisson does.
fn java_holds(backend: &Backend, lease: &str) {
    other(backend, &["HINCRBY", "x", JAVA, "1"]).unwrap();
    other(backend, &["PEXPIRE", "x", lease]).unwrap();
}

/// Frees the name as Redisson does. Returns the number of clients that were told.
fn java_releases(backend: &Backend) -> i64 {
    other(backend, &["DEL", "x"]).unwrap();
    let told = other(backend, &["PUBLISH", CHANNEL, "0"]).unwrap();
    told.as_int().unwrap()
}

#[tokio::test(start_paused = true)]
async fn hold_is_a_hash_with_an_owner_as_redisson_writes_it() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let lock = Redisson::new(&client, "x");
    let guard = lock.lock().await.unwrap();
    assert_eq!(guard.token(), None);
    let hash = backend.hash("x");
    let (owner, count) = hash.iter().next().unwrap();
    assert_eq!((hash.len(), count.as_str()), (1, "1"));
    assert_eq!(*owner, Redisson::owner_text(guard.owner()));
    let (uuid, number) = owner.split_once(':').unwrap();
    let groups: Vec<_> = uuid.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert!(number.parse::<i64>().is_ok(), "Java reads a long");
    let ttl = backend.ttl("x").unwrap();
    assert!(ttl > 29 * SECOND && ttl <= 30 * SECOND + MS, "{ttl:?}");
    let info = lock.info().await.unwrap().unwrap();
    assert_eq!((&info.owner, info.count), (owner, 1));
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(backend.keys(), [SIDE]);
    backend.pass(61 * SECOND).await;
    assert_eq!(backend.keys(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn re_entry_counts_as_redisson_sees_it_and_shortens_nothing() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let lock = Redisson::new(&client, "x");
    let first = lock.lock().await.unwrap();
    let second = lock
        .lock()
        .owner(first.owner())
        .lease(SECOND)
        .await
        .unwrap();
    assert!(backend.ttl("x").unwrap() > 20 * SECOND);
    assert_eq!(first.hold_count(), 2);
    assert_eq!(lock.info().await.unwrap().unwrap().count, 2);
    assert_eq!(first.release().await.unwrap(), Released::StillHeld(1));
    assert_eq!(lock.info().await.unwrap().unwrap().count, 1);
    assert!(
        Redisson::new(&client, "x")
            .try_lock()
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(second.release().await.unwrap(), Released::Free);
    assert_eq!(lock.info().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn message_of_redisson_lets_a_waiter_in_at_once() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    java_holds(&backend, "30000");
    let lock = Redisson::new(&client, "x");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    backend.pass(500 * MS).await;
    let calls = backend.script_calls();
    backend.pass(SECOND).await;
    assert!(backend.script_calls() - calls <= 1, "it does not poll");
    assert_eq!(java_releases(&backend), 1);
    let freed = Instant::now();
    let guard = waiting.await.unwrap();
    assert!(freed.elapsed() < 10 * MS, "{:?}", freed.elapsed());
    guard.release().await.unwrap();
    backend.pass(10 * MS).await;
    assert_eq!(backend.subscribers(CHANNEL), 0);
}

#[tokio::test(start_paused = true)]
async fn waiter_gets_in_when_the_lease_of_a_dead_java_process_ends() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    java_holds(&backend, "5000");
    let start = Instant::now();
    let guard = Redisson::new(&client, "x").lock().await.unwrap();
    let waited = start.elapsed();
    assert!(waited >= 5 * SECOND && waited < 5050 * MS, "{waited:?}");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lost_message_costs_one_recheck() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    java_holds(&backend, "30000");
    let lock = Redisson::new(&client, "x");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    other(&backend, &["DEL", "x"]).unwrap();
    let freed = Instant::now();
    waiting.await.unwrap().release().await.unwrap();
    assert!(freed.elapsed() < 2500 * MS, "{:?}", freed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn forced_end_by_redisson_is_told_at_the_next_renewal() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let lock = Redisson::new(&client, "x");
    let guard = lock.lock().await.unwrap();
    java_releases(&backend);
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossCause::Forgotten);
    assert!(start.elapsed() <= 10 * SECOND);
    assert_eq!(guard.release().await.unwrap(), Released::Expired);
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn forced_end_frees_the_name_and_tells() {
    let backend = Backend::embedded();
    let (ada, bob) = (backend.client().await, backend.client().await);
    let lock = Redisson::new(&ada, "x");
    assert!(!lock.force_release().await.unwrap(), "nobody holds it");
    java_holds(&backend, "30000");
    let other_lock = Redisson::new(&bob, "x");
    let waiting = tokio::spawn(async move { other_lock.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    assert!(lock.force_release().await.unwrap());
    let freed = Instant::now();
    let guard = waiting.await.unwrap();
    assert!(freed.elapsed() < 10 * MS);
    assert!(Redisson::new(&bob, "x").force_release().await.unwrap());
    assert_eq!(
        guard.state(),
        HoldState::Lost(LossCause::Revoked),
        "at once"
    );
}

#[tokio::test(start_paused = true)]
async fn hash_that_is_no_rlock_is_an_error_and_stays() {
    for create in [
        &["HSET", "x", "mode", "write", "a:1:write", "1"][..],
        &["HSET", "x", "field", "value"],
        &["HSET", "x", "a:1", "none"],
        &["SET", "x", "text"],
    ] {
        let backend = Backend::embedded();
        let client = backend.client().await;
        other(&backend, create).unwrap();
        let before = backend.embedded_server().dump();
        let lock = Redisson::new(&client, "x");
        for error in [
            lock.lock().await.unwrap_err(),
            lock.info().await.unwrap_err(),
            lock.force_release().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::WrongKind, "{create:?}");
            assert!(error.to_string().starts_with("redisson \"x\": "), "{error}");
        }
        let dump = |all: Vec<redlatch_embedded::engine::KeyDump>| {
            let own = all.into_iter().filter(|key| key.key.as_slice() == b"x");
            own.map(|key| key.contents).collect::<Vec<_>>()
        };
        assert_eq!(dump(backend.embedded_server().dump()), dump(before));
    }
}

#[tokio::test(start_paused = true)]
async fn acquisition_and_release_whose_replies_are_lost_count_once() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        backend.preload();
        let server = backend.embedded_server();
        let client = backend.client().await;
        let lock = Redisson::new(&client, "x");
        server.drop_reply(calls::of_script(REDISSON.acquire.text), how);
        let first = lock.lock().await.unwrap();
        server.drop_reply(calls::of_script(REDISSON.acquire.text), how);
        let second = lock.lock().owner(first.owner()).await.unwrap();
        assert_eq!(lock.info().await.unwrap().unwrap().count, 2);
        server.drop_reply(calls::of_script(REDISSON.release.text), how);
        assert_eq!(second.release().await.unwrap(), Released::StillHeld(1));
        server.drop_reply(calls::of_script(REDISSON.release.text), how);
        assert_eq!(first.release().await.unwrap(), Released::Free);
        assert_eq!(other(&backend, &["EXISTS", "x"]).unwrap(), Value::Int(0));
    }
}

#[tokio::test(start_paused = true)]
async fn late_copies_of_an_undone_acquisition_take_nothing() {
    let backend = Backend::embedded();
    backend.preload();
    let server = backend.embedded_server();
    let client = backend.client().await;
    let copies = Copies::of_script(server, REDISSON.acquire.text);
    server.drop_reply(calls::of_script(REDISSON.acquire.text), LostReply::Hangs);
    let short = Redisson::new(&client, "x").try_lock_for(50 * MS).await;
    assert!(short.is_err(), "{short:?}");
    assert_tables_empty(&client).await;
    let verdicts = copies.deliver();
    assert!(
        verdicts.iter().all(|verdict| verdict == "void"),
        "{verdicts:?}"
    );
    assert!(!verdicts.is_empty());
    assert_eq!(other(&backend, &["EXISTS", "x"]).unwrap(), Value::Int(0));
}

#[tokio::test(start_paused = true)]
async fn hold_is_renewed_and_its_loss_is_told_before_it_ends() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let guard = Redisson::new(&client, "x").lock().await.unwrap();
    backend.pass(45 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Held);
    backend.embedded_server().stop();
    let cause = guard.lost().await;
    assert!([LossCause::Unreachable, LossCause::Expired].contains(&cause));
    assert!(
        backend.embedded_server().ttl("x").is_some(),
        "it still lasts"
    );
    backend.embedded_server().resume();
    drop(guard);
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn old_layout_and_new_lock_are_held_as_one() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let (old, new) = (Redisson::new(&client, "x"), client.lock("x"));
    let both = client.multi_lock(&[&old, &new]);
    let guard = both.lock().await.unwrap();
    assert_eq!(backend.hash("x").len(), 1);
    assert!(guard.token("x").is_some());
    guard.release().await;
    java_holds(&backend, "30000");
    let waiting = tokio::spawn(async move { both.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    java_releases(&backend);
    let freed = Instant::now();
    waiting.await.unwrap().release().await;
    assert!(freed.elapsed() < 10 * MS);
}
