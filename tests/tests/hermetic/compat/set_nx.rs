//! The layout of redis-py, redsync, redislock, node-redlock and rslock.

use redlatch::{
    RedLock,
    compat::SetNx,
    runtime::{Command, Value},
};

use super::other;
use crate::prelude::*;

const SIDE: &str = "redlatch:setnx?{x}{}";

#[tokio::test(start_paused = true)]
async fn hold_is_a_string_under_the_name_itself() {
    let (backend, [client]) = preloaded().await;
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
    let (backend, [client]) = preloaded().await;
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
        let (backend, [client]) = preloaded().await;
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
        let off = calls.abs_diff(expected);
        assert!(off <= 3, "{calls} requests, {delay} ms");
        other(&backend, &["DEL", "x"]).unwrap();
        let freed = Instant::now();
        let guard = waiting.await.unwrap();
        assert!(freed.elapsed() <= (delay + 5) as u32 * MS);
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn hold_outlasts_the_hash_beside_its_name() {
    let (backend, [client]) = preloaded().await;
    let guard = SetNx::new(&client, "x").lock().await.unwrap();
    assert!(backend.embedded_server().delete_key(SIDE));
    backend.pass(40 * SECOND).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.release().await.unwrap(), Released::Free);
    assert!(backend.ends(SIDE));
}

#[tokio::test(start_paused = true)]
async fn several_names_of_one_layout_are_acquired_one_by_one() {
    let (backend, [client]) = preloaded().await;
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
    assert_eq!(backends[0].string("x").unwrap(), "theirs");
    let is_held = |backend: &Backend| backend.string("x").unwrap().contains(':');
    assert!(backends[1..].iter().all(is_held));
    other(&backends[1], &theirs).unwrap();
    assert!(is_held(&backends[1]), "it excludes");
    guard.release().await.unwrap();
    for backend in &backends[..2] {
        other(backend, &theirs).unwrap();
    }
    assert!(red.try_lock().await.unwrap().is_none());
    backends[2].pass(50 * MS).await;
    assert_eq!(backends[2].string("x"), None, "nothing is left of the try");
}
