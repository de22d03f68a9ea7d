//! Requests that the server answers with an error: what may be left of them is undone, and nothing
//! else is.

use std::{pin::Pin, sync::atomic::Ordering::Relaxed};

use futures_util::FutureExt;
use redlatch::{
    compat::{Redisson, SetNx},
    runtime::{Command, ServerError},
};
use redlatch_behaviours::releases::WAYS;
use redlatch_embedded::calls;
use redlatch_lua::REENTRANT;

use crate::prelude::*;

type Acquiring = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// A way to acquire the name `x`.
struct Way {
    what: &'static str,
    acquire: fn(&Client) -> Acquiring,
    /// The keys in which a hold is.
    keys: &'static [&'static str],
}

macro_rules! ways {
    ($($what:literal, $keys:expr, |$client:ident| $acquire:expr;)*) => {
        [$(Way {
            what: $what,
            acquire: |$client| {
                let acquiring = $acquire.into_future();
                Box::pin(acquiring.map(|acquired| acquired.map(drop)))
            },
            keys: &$keys,
        }),*]
    };
}

const K: &str = "redlatch:{x}";
const D: &str = "redlatch:{x}:d";
const Y: &str = "redlatch:{y}";

fn ways() -> impl IntoIterator<Item = Way> {
    ways! {
        "lock", [K], |client| client.lock("x").lock();
        "try_lock", [K], |client| client.lock("x").try_lock();
        "try_lock_for", [K], |client| client.lock("x").try_lock_for(SECOND);
        "fair", [K], |client| client.fair_lock("x").lock();
        "read", [K, D], |client| client.read_write_lock("x").read();
        "upgradable", [K, D], |client| client.read_write_lock("x").upgradable_read();
        "write", [K], |client| client.read_write_lock("x").write();
        "semaphore", [K, D], |client| client.semaphore("x").permits_if_unset(3).acquire_many(3);
        "permits", [K, D], |client| {
            let permits = client.permit_expirable_semaphore("x").permits_if_unset(3);
            async move {
                for id in permits.acquire_many(3).await? {
                    permits.release(&id).await?;
                }
                Ok(())
            }
        };
        "job", [K], |client| {
            let job = client.once("x").every(60 * SECOND);
            async move { job.run(async |_: &JobRun| Ok::<_, String>(())).await }
        };
        "leader", [K], |client| {
            let election = client.election("x");
            async move { election.lead(async |_| ()).await }
        };
        "several", [K, Y], |client| {
            let several = client.multi_lock(&[&client.lock("x"), &client.lock("y")]);
            async move { several.lock().await }
        };
        "several at once", [K, Y], |client| {
            let several = client.multi_lock(&[&client.lock("x"), &client.lock("y")]);
            async move { several.try_lock().await }
        };
        "set nx", ["x", "redlatch:setnx?{x}{}"], |client| SetNx::new(client, "x").lock();
        "redisson", ["x", "redlatch:redisson?{x}{}"], |client| Redisson::new(client, "x").try_lock();
    }
}

/// Waits until nothing is left to undo, which takes no time. Returns how many scripts that took.
/// One that the server does not know yet counts once.
async fn undo_calls(backend: &Backend, client: &Client, what: &str) -> u64 {
    let calls = || backend.embedded_server().command_count("EVALSHA");
    let (before, start) = (calls(), Instant::now());
    client.settled().await;
    let took = start.elapsed();
    assert!(took < SECOND / 10, "{what}: {took:?}");
    calls() - before
}

/// Such a script may have stopped behind a write, so there is an undo. It stops in the same way.
#[tokio::test(start_paused = true)]
async fn acquisition_on_a_foreign_value_is_undone_once() {
    for way in ways() {
        for key in way.keys {
            let what = format!("{} with {key}", way.what);
            let (backend, [client]) = embedded().await;
            // To `SetNx`, any string is a lock.
            if way.what == "set nx" && *key == "x" {
                backend.command(&["HSET", key, "field", "mine"]);
            } else {
                backend.command(&["SET", key, "mine"]);
            }
            let error = (way.acquire)(&client).await.expect_err(&what);
            assert_eq!(error.kind(), ErrorKind::WrongKind, "{what}: {error}");
            let undos = undo_calls(&backend, &client, &what).await;
            assert!(undos <= way.keys.len() as u64, "{what}: {undos} undos");
            assert!(backend.keys().contains(&(*key).to_owned()), "{what}");

            // Nothing is left that another client would wait for.
            backend.command(&["DEL", key]);
            let other = backend.client().await;
            let acquired = timeout(MS, (way.acquire)(&other)).await;
            acquired.expect(&what).expect(&what);
            assert_tables_empty(&other).await;
            if !["semaphore", "permits"].contains(&way.what) {
                assert!(backend.keys().iter().all(|key| backend.ends(key)), "{what}");
            }
        }
    }
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[tokio::test(start_paused = true)]
async fn acquisition_that_was_not_executed_is_not_undone() {
    for error in [
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "OOM command not allowed when used memory > 'maxmemory'.",
    ] {
        for way in ways() {
            let what = format!("{} with {error}", way.what);
            // A candidate goes on through trouble that may pass.
            if what.starts_with("leader with OOM") {
                continue;
            }
            let (backend, [client]) = embedded().await;
            for _ in 0..2 {
                let server = backend.embedded_server();
                server.fail_next(calls::of_scripts(), ServerError::parse(error));
            }
            (way.acquire)(&client).await.expect_err(&what);
            assert_eq!(undo_calls(&backend, &client, &what).await, 0, "{what}");
        }
    }
}

/// A copy may act as long as its limit lasts, whatever the server says to the others.
#[tokio::test(start_paused = true)]
async fn acquisition_with_a_lost_reply_is_undone_until_the_server_takes_it() {
    let (backend, [client, other]) = preloaded().await;
    let acquire = REENTRANT.acquire.text;
    let (lost, of_script) = (Arc::new(AtomicBool::new(false)), calls::of_script(acquire));
    for script in [acquire].iter().chain(&[REENTRANT.release.text; 5]) {
        let (lost, of_script) = (Arc::clone(&lost), calls::of_script(script));
        let refused = move |command: &Command| lost.load(Relaxed) && of_script(command);
        let server = backend.embedded_server();
        server.fail_next(refused, ServerError::parse(WRONG_TYPE));
    }
    let is_first = move |command: &Command| {
        let first = of_script(command);
        lost.fetch_or(first, Relaxed);
        first
    };
    let server = backend.embedded_server();
    server.drop_reply(is_first, LostReply::Cuts);
    let error = client.lock("x").lock().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind);
    assert!(!error.is_not_executed());
    backend.pass(100 * MS).await;
    assert_eq!(client.tables().pending_releases, 1);
    assert!(other.lock("x").is_locked().await.unwrap());
    client.settled().await;
    assert!(other.lock("x").try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn hold_under_a_key_that_was_overwritten_needs_one_release() {
    let (backend, [client]) = embedded().await;
    let guards = async || -> [Box<dyn AnyGuard>; 3] {
        [
            client.lock("x").lock().await.unwrap().into(),
            client.fair_lock("y").lock().await.unwrap().into(),
            client.read_write_lock("z").write().await.unwrap().into(),
        ]
    };
    for overwritten in [&["SET", "mine"][..], &["HSET", "mine", "theirs"]] {
        for released in [false, true] {
            let held = guards().await;
            for name in ["x", "y", "z"] {
                let key = format!("redlatch:{{{name}}}");
                backend.command(&["DEL", &key]);
                backend.command(&[&[overwritten[0], &key], &overwritten[1..]].concat());
            }
            if released {
                for guard in held {
                    assert_eq!(guard.release().await.unwrap(), Released::Forgotten);
                }
                assert_eq!(undo_calls(&backend, &client, "released").await, 0);
            } else {
                drop(held);
                assert_eq!(undo_calls(&backend, &client, "dropped").await, 3);
            }
            for name in ["x", "y", "z"] {
                backend.command(&["DEL", &format!("redlatch:{{{name}}}")]);
            }
        }
    }
}

/// The error of one entry is the answer to that entry alone.
#[tokio::test(start_paused = true)]
async fn foreign_value_among_many_names_costs_nobody_else_a_call() {
    let (backend, [client]) = embedded().await;
    backend.command(&["SET", "redlatch:{n5}", "mine"]);
    let tries = (0..16).map(|n| client.lock(format!("n{n}")).try_lock().into_future());
    backend.preload();
    let before = backend.script_calls();
    let mut tried = join_all(tries).await;
    let calls = backend.script_calls() - before;
    // The first few leave alone, before there is company.
    assert!(calls <= 5, "{calls}");
    let error = tried.remove(5).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKind);
    assert_eq!(undo_calls(&backend, &client, "among many").await, 1);
    for guard in tried {
        let released = guard.unwrap().unwrap().release().await;
        assert_eq!(released.unwrap(), Released::Free);
    }
    assert_tables_empty(&client).await;
    backend.command(&["DEL", "redlatch:{n5}"]);
    backend.assert_only_counters_left();
}

/// A release ends the hold before it looks for waiters.
#[tokio::test(start_paused = true)]
async fn hold_ends_although_a_key_of_its_waiters_was_overwritten() {
    for way in WAYS {
        for part in ["q", "r", "l", "d"] {
            let what = format!("{} with {part}", way.kind);
            let (backend, [client, other]) = embedded().await;
            let held = (way.lock)(&client, "x").await.unwrap();
            let waiter = tokio::spawn((way.lock)(&other, "x"));
            backend.pass(100 * MS).await;
            let part = format!("{K}:{part}");
            if !backend.keys().contains(&part) {
                continue;
            }
            backend.command(&["DEL", &part]);
            backend.command(&["SET", &part, "mine"]);
            drop(held);
            // A permit with an id goes back by a task of its own.
            backend.pass(MS).await;
            if way.kind != "permits" {
                undo_calls(&backend, &client, &what).await;
            }
            let hash = backend.hash(K);
            let is_hold = |field: &&String| *field == "o" || field.starts_with("h:");
            assert_eq!(hash.keys().find(is_hold), None, "{what}: {hash:?}");
            waiter.abort();
        }
    }
    let (backend, [client]) = embedded().await;
    drop({
        let held = SetNx::new(&client, "x").lock().await.unwrap();
        let beside = backend.keys().into_iter().find(|key| key != "x").unwrap();
        backend.command(&["DEL", &beside]);
        backend.command(&["SET", &beside, "mine"]);
        held
    });
    undo_calls(&backend, &client, "set nx").await;
    assert!(!backend.keys().contains(&"x".to_owned()));
}

/// A release that the server has refused so far begins no try that could not be answered in time.
/// Otherwise the error would be that the outcome is unknown.
#[tokio::test(start_paused = true)]
async fn refused_release_keeps_its_clear_error_when_the_server_falls_silent_at_the_end() {
    let backend = Backend::embedded();
    let server = backend.embedded_server();
    let builder = backend.builder().patience(400 * MS);
    let client = builder.connect().await.unwrap();
    let mut guards = Vec::new();
    for n in 0..40 {
        guards.push(client.lock(format!("{n}")).lock().await.unwrap());
    }
    server.set_short_of_replicas(true);
    let releases = tokio::spawn(join_all(guards.into_iter().map(|guard| guard.release())));
    backend.pass(355 * MS).await;
    server.stop();
    for released in releases.await.unwrap() {
        let error = released.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotEnoughReplicas, "{error}");
    }
    server.resume();
    server.set_short_of_replicas(false);
    assert_tables_empty(&client).await;
}
