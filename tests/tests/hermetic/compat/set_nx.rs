//! The layout of redis-py, redsync, redislock, node-redlock and rslock.

use std::time::Duration;

use redlatch::{
    ErrorKind, HoldState, Lockable, LossCause, RedLock, Released,
    compat::SetNx,
    runtime::{Command, Value},
};
use redlatch_embedded::{LostReply, calls};
use redlatch_lua::SETNX;
use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    copies::Copies,
};
use tokio::time::Instant;

use super::{assert_tables_empty_but, other};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const SIDE: &str = "redlatch:setnx?{x}{}";

#[tokio::test(start_paused = true)]
async fn hold_is_a_string_under_the_name_itself() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let lock = SetNx::redis_py(&client, "report");
    let guard = lock.lock().await.unwrap();
    assert_eq!(guard.token(), None);
    let value = backend.string("report").unwrap();
    let parts: Vec<_> = value.split(':').collect();
    let [id, number, serial] = parts[..] else {
        panic!("{value}");
    };
    assert_eq!(id, client.id().as_str());
    assert!(number.parse::<u64>().is_ok() && serial.len() == 16);
    // The lease may begin in the next millisecond of the engine.
    let ttl = backend.ttl("report").unwrap();
    assert!(ttl > 29 * SECOND && ttl <= 30 * SECOND + MS, "{ttl:?}");
    let info = lock.info().await.unwrap().unwrap();
    assert_eq!(info.value, value.as_bytes());
    assert_eq!(backend.keys(), ["redlatch:setnx?{report}{}", "report"]);
    // What each of those libraries sends while another one holds.
    let theirs = ["SET", "report", "token", "NX", "PX", "8000"];
    assert_eq!(other(&backend, &theirs).unwrap(), Value::Nil);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(backend.string("report"), None);
    assert_eq!(lock.info().await.unwrap(), None);
    backend.pass(61 * SECOND).await;
    assert_eq!(backend.keys(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn redsync_has_its_own_default_lease() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let guard = SetNx::redsync(&client, "x").lock().await.unwrap();
    let ttl = backend.ttl("x").unwrap();
    assert!(ttl > 7 * SECOND && ttl <= 8 * SECOND + MS, "{ttl:?}");
    backend.pass(20 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Held, "it is renewed");
    assert!(backend.ttl("x").unwrap() > 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn waiter_asks_again_after_the_delay_of_the_library() {
    for (make, delay) in [
        (SetNx::redis_py as fn(&_, &'static str) -> SetNx, 100),
        (SetNx::redsync, 150),
        (SetNx::redislock, 100),
        (SetNx::node_redlock, 200),
        (SetNx::rslock, 100),
    ] {
        let backend = Backend::embedded();
        let client = backend.client().await;
        // A token of rslock is no text.
        let token = Command::new("SET").arg("x").arg([0xff_u8, 0, 7]);
        backend.embedded_server().execute(&token).unwrap();
        let lock = make(&client, "x");
        let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
        backend.pass(10 * SECOND).await;
        let calls = backend.script_calls();
        backend.pass(10 * SECOND).await;
        let calls = backend.script_calls() - calls;
        let expected = 10_000 / (delay + 2);
        assert!(
            calls.abs_diff(expected) <= 3,
            "{calls} requests, {delay} ms"
        );
        other(&backend, &["DEL", "x"]).unwrap();
        let freed = Instant::now();
        let guard = waiting.await.unwrap();
        assert!(freed.elapsed() <= (delay + 5) as u32 * MS);
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_gets_in_when_the_lease_of_a_dead_holder_ends() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    other(&backend, &["SET", "x", "dead", "NX", "PX", "1234"]).unwrap();
    let start = Instant::now();
    let guard = SetNx::new(&client, "x").lock().await.unwrap();
    let waited = start.elapsed();
    assert!(waited >= 1234 * MS && waited < 1250 * MS, "{waited:?}");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn release_tells_the_waiters_of_other_clients() {
    let backend = Backend::embedded();
    let (ada, bob) = (backend.client().await, backend.client().await);
    let guard = SetNx::new(&ada, "x").lock().await.unwrap();
    let lock = SetNx::new(&bob, "x").retry_delay(SECOND);
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    backend.pass(100 * MS).await;
    guard.release().await.unwrap();
    let freed = Instant::now();
    waiting.await.unwrap().release().await.unwrap();
    assert!(freed.elapsed() < 10 * MS, "{:?}", freed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn value_that_somebody_else_put_there_is_never_removed() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let lock = SetNx::new(&client, "x");
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    other(&backend, &["SET", "x", "theirs"]).unwrap();
    assert_eq!(guard.lost().await, LossCause::Taken);
    assert_eq!(guard.release().await.unwrap(), Released::TakenOver);
    assert_eq!(backend.string("x").unwrap(), "theirs");
    assert!(lock.try_lock().await.unwrap().is_none());
    assert_tables_empty(&client).await;

    other(&backend, &["DEL", "x"]).unwrap();
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    other(&backend, &["DEL", "x"]).unwrap();
    assert_eq!(guard.lost().await, LossCause::Forgotten);
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    assert_eq!(backend.string("x"), None, "renewal creates nothing");
}

#[tokio::test(start_paused = true)]
async fn value_of_another_type_is_an_error_and_stays() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    other(&backend, &["HSET", "x", "field", "1"]).unwrap();
    let lock = SetNx::new(&client, "x");
    for error in [
        lock.lock().await.unwrap_err(),
        lock.try_lock().await.unwrap_err(),
        lock.info().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::WrongKind);
        assert!(error.to_string().starts_with("set nx \"x\": "), "{error}");
    }
    assert_eq!(backend.hash("x")["field"], "1");
    assert_tables_empty(&client).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_name_is_an_error_before_any_request() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let calls = backend.script_calls();
    let long = "x".repeat(513);
    for name in ["", "a{b", "{}", "a}b", "{a}{b}", "redlatch:{x}", &long] {
        let lock = SetNx::new(&client, name).class("c").retry_delay(SECOND);
        let error = lock.lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{name}");
        let both = client.multi_lock(&[&lock]).lock().await.unwrap_err();
        assert_eq!(both.kind(), ErrorKind::InvalidName, "{name}");
        let info = lock.info().await.unwrap_err();
        assert_eq!(info.kind(), ErrorKind::InvalidName, "{name}");
    }
    assert_eq!(backend.script_calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn acquisition_and_release_whose_replies_are_lost_count_once() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        backend.preload();
        let server = backend.embedded_server();
        let client = backend.client().await;
        let lock = SetNx::new(&client, "x");
        server.drop_reply(calls::of_script(SETNX.acquire.text), how);
        let guard = lock.lock().await.unwrap();
        server.drop_reply(calls::of_script(SETNX.release.text), how);
        assert_eq!(guard.release().await.unwrap(), Released::Free);
        assert_eq!(backend.string("x"), None);
        assert!(lock.try_lock().await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn late_copies_of_an_undone_acquisition_take_nothing() {
    let backend = Backend::embedded();
    backend.preload();
    let server = backend.embedded_server();
    let client = backend.client().await;
    let copies = Copies::of_script(server, SETNX.acquire.text);
    server.drop_reply(calls::of_script(SETNX.acquire.text), LostReply::Hangs);
    let lock = SetNx::new(&client, "x");
    let short = lock.try_lock_for(50 * MS).await;
    assert!(short.is_err(), "{short:?}");
    assert_tables_empty(&client).await;
    let verdicts = copies.deliver();
    assert!(!verdicts.is_empty());
    assert!(
        verdicts.iter().all(|verdict| verdict == "void"),
        "{verdicts:?}"
    );
    assert_eq!(backend.string("x"), None);
    backend.pass(6 * SECOND).await;
    let verdicts = copies.deliver();
    assert!(
        verdicts.iter().all(|verdict| verdict == "late"),
        "{verdicts:?}"
    );
    backend.pass(60 * SECOND).await;
    assert_eq!(
        backend.keys(),
        Vec::<String>::new(),
        "the marks have an end"
    );
}

#[tokio::test(start_paused = true)]
async fn value_that_a_late_copy_brings_back_is_no_hold() {
    let backend = Backend::embedded();
    backend.preload();
    let client = backend.client().await;
    let copies = Copies::of_script(backend.embedded_server(), SETNX.acquire.text);
    let lock = SetNx::new(&client, "x");
    let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
    let value = backend.string("x").unwrap();
    // Another program ends the hold. It may have held the name itself before the copy arrives.
    other(&backend, &["DEL", "x"]).unwrap();
    assert_eq!(copies.deliver(), ["granted"]);
    assert_ne!(backend.string("x").unwrap(), value);
    backend.pass(2 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Lost(LossCause::Taken));
    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
    assert_eq!(backend.string("x"), None, "what the copy took is free");
}

#[tokio::test(start_paused = true)]
async fn copies_of_renewals_and_releases_touch_no_later_hold() {
    let backend = Backend::embedded();
    backend.preload();
    let client = backend.client().await;
    let server = backend.embedded_server();
    let renewals = Copies::of_script(server, SETNX.renew.text);
    let releases = Copies::of_script(server, SETNX.release.text);
    let lock = SetNx::new(&client, "x");
    let guard = lock.lock().await.unwrap();
    guard.extend(60 * SECOND).await.unwrap();
    guard.release().await.unwrap();
    let later = lock.lock().lease(10 * SECOND).await.unwrap();
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
    let lock = SetNx::new(&client, "x");
    let first = lock.lock().await.unwrap();
    other(&backend, &["DEL", "x"]).unwrap();
    backend.embedded_server().set_back(600 * SECOND);
    let second = lock.lock().owner(first.owner()).await.unwrap();
    assert_eq!(first.state(), HoldState::Lost(LossCause::Taken));
    assert_eq!(second.state(), HoldState::Held);
    assert_eq!(first.release().await.unwrap(), Released::TakenOver);
    assert_eq!(second.release().await.unwrap(), Released::Free);
}

#[tokio::test(start_paused = true)]
async fn hold_outlasts_the_hash_beside_its_name() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let guard = SetNx::new(&client, "x").lock().await.unwrap();
    assert!(backend.embedded_server().delete_key(SIDE));
    backend.pass(40 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert!(backend.ends(SIDE));
}

#[tokio::test(start_paused = true)]
async fn full_server_refuses_acquisitions_and_accepts_what_keeps_and_ends() {
    let backend = Backend::embedded();
    backend.preload();
    let server = backend.embedded_server();
    let client = backend.client().await;
    let held = SetNx::new(&client, "held");
    let guard = held.lock().renewed_lease(3 * SECOND).await.unwrap();
    let lock = SetNx::new(&client, "x");
    let undone = lock.clone();
    server.drop_reply(calls::of_script(SETNX.acquire.text), LostReply::Hangs);
    let undone = tokio::spawn(async move { undone.try_lock_for(50 * MS).await });
    backend.pass(10 * MS).await;
    assert!(backend.string("x").is_some());
    server.set_full(true);
    assert!(undone.await.unwrap().is_err());
    assert_tables_empty_but(&client, 1).await;
    assert_eq!(backend.string("x"), None, "the undo was accepted");
    let keys = backend.keys();
    let refused = lock.lock().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ServerFull);
    assert!(refused.is_not_executed());
    assert!(held.try_lock().await.unwrap().is_none());
    assert_eq!(backend.keys(), keys, "nothing was written");
    guard.extend(5 * SECOND).await.unwrap();
    backend.pass(20 * SECOND).await;
    guard.check().unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert_eq!(backend.string("held"), None);
    assert!(backend.keys().iter().all(|key| backend.ends(key)));
}

#[tokio::test(start_paused = true)]
async fn renewal_whose_reply_is_lost_is_sent_again() {
    for how in [LostReply::Hangs, LostReply::Cuts] {
        let backend = Backend::embedded();
        backend.preload();
        let client = backend.client().await;
        let lock = SetNx::new(&client, "x");
        let guard = lock.lock().renewed_lease(3 * SECOND).await.unwrap();
        let server = backend.embedded_server();
        server.drop_reply(calls::of_script(SETNX.renew.text), how);
        guard.extend(3 * SECOND).await.unwrap();
        server.drop_reply(calls::of_script(SETNX.renew.text), how);
        backend.pass(10 * SECOND).await;
        assert_eq!(guard.state(), HoldState::Held, "{how:?}");
        assert_eq!(guard.release().await.unwrap(), Released::Free);
    }
}

#[tokio::test(start_paused = true)]
async fn loss_is_told_before_the_lease_ends_on_a_server_that_is_away() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let guard = SetNx::new(&client, "x").lock().await.unwrap();
    backend.pass(40 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Held, "it is renewed");
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
    let (old, new) = (SetNx::redis_py(&client, "x"), client.lock("x"));
    let both = client.multi_lock(&[&old, &new]);
    let guard = both.lock().await.unwrap();
    assert!(backend.string("x").is_some());
    let token = guard.token("x").unwrap();
    assert!(token.as_u64() > 0, "it is the token of the new lock");
    let other_client = backend.client().await;
    assert!(
        SetNx::new(&other_client, "x")
            .try_lock()
            .await
            .unwrap()
            .is_none()
    );
    assert!(other_client.lock("x").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    other(&backend, &["SET", "x", "theirs", "NX", "PX", "1000"]).unwrap();
    assert!(both.try_lock().await.unwrap().is_none());
    assert!(
        new.try_lock().await.unwrap().is_some(),
        "nothing is left of the try"
    );
    let alone = client
        .multi_lock(&[&old])
        .try_lock_for(2 * SECOND)
        .await
        .unwrap();
    assert_eq!(alone.unwrap().token("x"), None);
}

#[tokio::test(start_paused = true)]
async fn several_names_of_one_layout_are_acquired_one_by_one() {
    let backend = Backend::embedded();
    let client = backend.client().await;
    let names = ["a", "b", "c"].map(|name| SetNx::node_redlock(&client, name));
    let all = client.multi_lock(&[&names[2], &names[0], &names[1]]);
    let guard = all.lock().await.unwrap();
    let held = || ["a", "b", "c"].map(|name| backend.string(name).is_some());
    assert_eq!(held(), [true; 3]);
    guard.release().await.unwrap();
    assert_eq!(held(), [false; 3]);
}

/// The lock of redsync with three pools, and of node-redlock and rslock with three servers.
#[tokio::test(start_paused = true)]
async fn red_lock_holds_a_majority_of_names() {
    let backends = [(); 3].map(|()| Backend::embedded());
    let mut locks = Vec::new();
    for backend in &backends {
        let client = backend.client().await;
        locks.push(SetNx::redsync(&client, "x"));
        // A server that was started just now might have forgotten a hold.
        backend.pass(31 * SECOND).await;
    }
    let nodes: Vec<_> = locks.iter().map(|lock| lock as &dyn Lockable).collect();
    let red = RedLock::new(&nodes);
    let theirs = ["SET", "x", "theirs", "NX", "PX", "5000"];
    other(&backends[0], &theirs).unwrap();
    let guard = red.lock().await.unwrap();
    let values = backends
        .each_ref()
        .map(|backend| backend.string("x").unwrap());
    assert_eq!(values[0], "theirs");
    assert!(
        values[1..].iter().all(|value| value.contains(':')),
        "{values:?}"
    );
    other(&backends[1], &theirs).unwrap();
    assert!(
        backends[1].string("x").unwrap().contains(':'),
        "it excludes"
    );
    guard.release().await.unwrap();
    for backend in &backends[..2] {
        other(backend, &theirs).unwrap();
    }
    assert!(red.try_lock().await.unwrap().is_none());
    backends[2].pass(50 * MS).await;
    assert_eq!(backends[2].string("x"), None, "nothing is left of the try");
}
