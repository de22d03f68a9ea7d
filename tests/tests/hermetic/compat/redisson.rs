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

use super::{assert_tables_empty_but, other};

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
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
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
async fn late_copies_of_a_forced_end_end_no_later_hold() {
    let backend = Backend::embedded();
    backend.preload();
    let client = backend.client().await;
    let copies = Copies::of_script(backend.embedded_server(), REDISSON.force.text);
    java_holds(&backend, "30000");
    assert!(Redisson::new(&client, "x").force_release().await.unwrap());
    // The same thread has the name again.
    java_holds(&backend, "30000");
    assert_eq!(copies.deliver(), ["done"]);
    assert_eq!(backend.hash("x")[JAVA], "1");
    backend.pass(6 * SECOND).await;
    assert_eq!(copies.deliver(), ["late"]);
    assert_eq!(backend.hash("x")[JAVA], "1");
    backend.pass(60 * SECOND).await;
    assert_eq!(backend.keys(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn forced_end_whose_reply_is_lost_ends_one_hold() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        backend.preload();
        let client = backend.client().await;
        java_holds(&backend, "30000");
        let server = backend.embedded_server();
        server.drop_reply(calls::of_script(REDISSON.force.text), how);
        let lock = Redisson::new(&client, "x");
        let mut ending = Box::pin(lock.force_release());
        while backend.keys().contains(&"x".to_owned()) {
            assert!(futures_util::poll!(&mut ending).is_pending());
            tokio::task::yield_now().await;
        }
        java_holds(&backend, "30000");
        assert!(ending.await.unwrap(), "{how:?}");
        assert_eq!(backend.hash("x")[JAVA], "1", "{how:?}: a later hold");
    }
}

#[tokio::test(start_paused = true)]
async fn forced_end_by_another_client_is_told_as_revoked() {
    let backend = Backend::embedded();
    let (ada, bob) = (backend.client().await, backend.client().await);
    let lock = Redisson::new(&ada, "x");
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    let again = lock.lock().owner(guard.owner()).await.unwrap();
    assert!(Redisson::new(&bob, "x").force_release().await.unwrap());
    backend.pass(11 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Revoked));
    assert_eq!(guard.release().await.unwrap(), Released::Revoked);
    assert_eq!(again.release().await.unwrap(), Released::Revoked);
    assert_tables_empty(&ada).await;
}

#[tokio::test(start_paused = true)]
async fn hold_that_a_late_copy_brings_back_is_no_hold() {
    let backend = Backend::embedded();
    backend.preload();
    let client = backend.client().await;
    let copies = Copies::of_script(backend.embedded_server(), REDISSON.acquire.text);
    let lock = Redisson::new(&client, "x");
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    // A Java process ends the hold, and may have held the name before the copy arrives.
    java_releases(&backend);
    assert_eq!(copies.deliver(), ["granted"]);
    backend.pass(2 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Taken));
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    assert_eq!(other(&backend, &["EXISTS", "x"]).unwrap(), Value::Int(0));
}

#[tokio::test(start_paused = true)]
async fn copies_of_renewals_and_releases_touch_no_later_hold() {
    let backend = Backend::embedded();
    backend.preload();
    let client = backend.client().await;
    let server = backend.embedded_server();
    let renewals = Copies::of_script(server, REDISSON.renew.text);
    let releases = Copies::of_script(server, REDISSON.release.text);
    let lock = Redisson::new(&client, "x");
    let guard = lock.lock().await.unwrap();
    let owner = guard.owner().clone();
    guard.extend(60 * SECOND).await.unwrap();
    guard.release().await.unwrap();
    // A later hold of the same owner.
    let later = lock.lock().owner(&owner).lease(10 * SECOND).await.unwrap();
    assert_eq!(renewals.deliver(), ["taken"]);
    assert_eq!(releases.deliver(), ["already"]);
    assert!(backend.ttl("x").unwrap() <= 10 * SECOND + MS);
    later.check().unwrap();
    assert_eq!(later.release().await.unwrap(), Released::Free);
}

#[tokio::test(start_paused = true)]
async fn later_hold_of_an_owner_counts_although_the_clock_was_set_back() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let lock = Redisson::new(&client, "x");
    let first = lock.lock().await.unwrap();
    other(&backend, &["DEL", "x"]).unwrap();
    backend.embedded_server().set_back(600 * SECOND);
    let second = lock.lock().owner(first.owner()).await.unwrap();
    assert_eq!(first.state(), HoldState::Lost(LossCause::Taken));
    assert_eq!(second.state(), HoldState::Held);
    assert_eq!(first.release().await.unwrap(), Released::Forgotten);
    assert_eq!(second.release().await.unwrap(), Released::Free);
}

#[tokio::test(start_paused = true)]
async fn hold_without_its_hash_is_forgotten_and_stays_until_its_lease_ends() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let lock = Redisson::new(&client, "x");
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    let owner = Redisson::owner_text(guard.owner());
    assert!(backend.embedded_server().delete_key(SIDE));
    backend.pass(1500 * MS).await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Forgotten));
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    assert_eq!(backend.hash("x")[&owner], "1", "nothing is destroyed");
    assert!(lock.try_lock().await.unwrap().is_none());
    backend.pass(3 * SECOND).await;
    assert!(lock.try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn owner_that_acquires_again_without_its_hash_begins_a_new_hold() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let lock = Redisson::new(&client, "x");
    let first = lock.lock().await.unwrap();
    let again = lock.lock().owner(first.owner()).await.unwrap();
    assert!(backend.embedded_server().delete_key(SIDE));
    backend.pass(MS).await;
    let anew = lock.lock().owner(first.owner()).await.unwrap();
    assert_eq!(first.state(), HoldState::Lost(LossCause::Taken));
    assert_eq!(lock.info().await.unwrap().unwrap().count, 1);
    for lost in [first, again] {
        assert_eq!(lost.release().await.unwrap(), Released::Forgotten);
    }
    anew.check().unwrap();
    assert_eq!(anew.release().await.unwrap(), Released::Free);
    assert_eq!(lock.info().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn full_server_refuses_acquisitions_and_accepts_what_keeps_and_ends() {
    let backend = Backend::embedded();
    backend.preload();
    let server = backend.embedded_server();
    let client = backend.client().await;
    let held = Redisson::new(&client, "held");
    let guard = held.lock().renewed_lease(3 * SECOND).await.unwrap();
    let again = held.lock().owner(guard.owner()).await.unwrap();
    let lock = Redisson::new(&client, "x");
    let undone = lock.clone();
    server.drop_reply(calls::of_script(REDISSON.acquire.text), LostReply::Hangs);
    let undone = tokio::spawn(async move { undone.try_lock_for(50 * MS).await });
    backend.pass(10 * MS).await;
    assert_eq!(backend.hash("x").len(), 1);
    server.set_full(true);
    assert!(undone.await.unwrap().is_err());
    assert_tables_empty_but(&client, 1).await;
    assert_eq!(other(&backend, &["EXISTS", "x"]).unwrap(), Value::Int(0));
    let keys = backend.keys();
    for refused in [
        lock.lock().await.unwrap_err(),
        held.lock().owner(guard.owner()).await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::ServerFull);
        assert!(refused.is_not_executed());
    }
    assert!(held.try_lock().await.unwrap().is_none());
    assert_eq!(backend.keys(), keys, "nothing was written");
    assert_eq!(held.info().await.unwrap().unwrap().count, 2);
    guard.extend(5 * SECOND).await.unwrap();
    backend.pass(20 * SECOND).await;
    guard.check().unwrap();
    assert_eq!(again.release().await.unwrap(), Released::StillHeld(1));
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    server.set_full(false);
    java_holds(&backend, "30000");
    server.set_full(true);
    assert!(lock.force_release().await.unwrap());
    assert!(backend.keys().iter().all(|key| backend.ends(key)));
}

#[tokio::test(start_paused = true)]
async fn renewal_whose_reply_is_lost_is_sent_again() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        backend.preload();
        let client = backend.client().await;
        let lock = Redisson::new(&client, "x");
        let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
        let server = backend.embedded_server();
        server.drop_reply(calls::of_script(REDISSON.renew.text), how);
        guard.extend(3 * SECOND).await.unwrap();
        server.drop_reply(calls::of_script(REDISSON.renew.text), how);
        backend.pass(10 * SECOND).await;
        assert_eq!(guard.state(), HoldState::Held, "{how:?}");
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
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
    guard.release().await.unwrap();
    java_holds(&backend, "30000");
    let waiting = tokio::spawn(async move { both.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    java_releases(&backend);
    let freed = Instant::now();
    waiting.await.unwrap().release().await.unwrap();
    assert!(freed.elapsed() < 10 * MS);
}
