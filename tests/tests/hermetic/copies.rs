//! A network that doubles requests: copies that no client knows of come later, on another
//! connection. They act on nothing that has ended.

use redlatch::{compat::SetNx, permits::PermitRelease};
use redlatch_embedded::engine::{Contents, KeyDump};
use redlatch_lua::{POOL, REENTRANT, Source};
use redlatch_tests::copies::Copies;

use crate::{
    cancel::{held_by_another, lock},
    prelude::*,
    ways::{WAYS, Wait, Way},
};

/// Returns all keys, without the record of attempts that may not act, and without ends.
fn data(backend: &Backend) -> Vec<KeyDump> {
    let mut keys = backend.embedded_server().dump();
    for dump in &mut keys {
        dump.expires = None;
        if let Contents::Hash(fields) = &mut dump.contents {
            fields.retain(|(field, _)| field != b"v");
        }
    }
    keys
}

/// Delivers a copy of every call that `scene` sends once `scene` is over. Nothing changes.
async fn doubled(what: &str, scene: impl AsyncFnOnce(&Backend)) {
    let backend = Backend::embedded();
    let copies = Copies::of_all(backend.embedded_server());
    scene(&backend).await;
    backend.pass(20 * MS).await;
    let before = data(&backend);
    for _ in 0..2 {
        copies.repeat();
        backend.pass(20 * MS).await;
        assert_eq!(data(&backend), before, "{what}");
    }
}

/// Runs a scene of each way to hold a name.
async fn doubled_each(what: &str, scene: impl AsyncFn(&Backend, Way)) {
    for way in WAYS {
        let what = format!("{what}, {}", way.what);
        doubled(&what, async |backend| {
            scene(backend, way).await;
            let last = backend.client().await;
            way.assert_nothing_left(backend, &last).await;
            last.settled().await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_released_hold_take_nothing() {
    doubled_each("one hold", async |backend, way| {
        let held = way.hold(&backend.client().await).await;
        held.release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn copies_of_earlier_holds_take_nothing_after_later_ones() {
    // More clients than the server has on record.
    doubled_each("holds of twelve clients", async |backend, way| {
        for _ in 0..12 {
            let client = backend.client().await;
            for _ in 0..2 {
                way.hold(&client).await.release().await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_try_in_vain_take_nothing() {
    doubled_each("a try", async |backend, way| {
        let others = held_by_another(way, backend).await;
        let tried = way.ask(&backend.client().await, Wait::Never).await;
        assert!(tried.unwrap().is_none());
        others.await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_cancelled_wait_take_nothing_and_wait_for_nothing() {
    doubled_each("a cancelled wait", async |backend, way| {
        let others = held_by_another(way, backend).await;
        let client = backend.client().await;
        for strategy in [
            WaitStrategy::Notify,
            WaitStrategy::Poll(Backoff::constant(2 * MS)),
        ] {
            let mut waiting = lock(way, &client, Wait::Forever, strategy);
            assert!(polled(backend, &mut waiting, 30).await.is_none());
            drop(waiting);
            client.settled().await;
        }
        others.await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn copies_of_waits_that_were_granted_take_nothing() {
    doubled_each("granted waits", async |backend, way| {
        let others = held_by_another(way, backend).await;
        let clients = [backend.client().await, backend.client().await];
        let notify = WaitStrategy::Notify;
        let wait = |at: usize| lock(way, &clients[at % 2], Wait::Forever, notify);
        let waits: Vec<_> = (0..6).map(|at| tokio::spawn(wait(at))).collect();
        backend.pass(5 * MS).await;
        others.await;
        for wait in waits {
            wait.await.unwrap();
        }
    })
    .await;
}

/// Enters a hold again, and leaves it. Copies do not join what is left.
#[tokio::test(start_paused = true)]
async fn copies_of_an_ended_entry_do_not_join_the_hold() {
    for (what, make) in LOCKS {
        let (backend, [client, other]) = embedded().await;
        let copies = Copies::of_all(backend.embedded_server());
        let (lock, owner) = (make(&client, "x"), client.owner());
        let outer = lock.lock().owner(&owner).await.unwrap();
        for _ in 0..3 {
            let inner = lock.lock().owner(&owner).await.unwrap();
            let released = inner.release().await.unwrap();
            assert_eq!(released, Released::StillHeld(1), "{what}");
            copies.repeat();
        }
        assert_eq!(outer.release().await.unwrap(), Released::Free, "{what}");
        copies.repeat();
        let again = make(&other, "x").lock().into_future();
        let again = timeout(SECOND, again).await;
        drop(again.expect(what).unwrap());
    }
}

/// The request whose reply is lost was executed, and is sent again.
#[tokio::test(start_paused = true)]
async fn copies_of_requests_with_a_lost_reply_take_nothing() {
    let lost = async |backend: &Backend, script: &Source, how| {
        backend.preload();
        lose_reply(backend, script.text, how);
        (backend.client().await, backend.client().await)
    };
    for how in [LostReply::Hangs, LostReply::Cuts] {
        doubled("a lock of a client that closes", async |backend| {
            let (client, other) = lost(backend, &REENTRANT.acquire, how).await;
            let before = backend.script_calls();
            let guard = client.lock("x").lock().await.unwrap();
            assert!(backend.script_calls() - before >= 2, "no reply was lost");
            client.close_now().await;
            assert!(!other.lock("x").is_locked().await.unwrap());
            drop(guard);
        })
        .await;
        doubled("permits that are given back elsewhere", async |backend| {
            let (client, other) = lost(backend, &POOL.acquire, how).await;
            let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
            let before = backend.script_calls();
            let ids = permits.acquire_many(3).await.unwrap();
            assert!(backend.script_calls() - before >= 2, "no reply was lost");
            assert_eq!(permits.totals().await.unwrap().acquired, 3);
            let ids = ids.iter().map(|id| id.to_string().parse().unwrap());
            let ids: Vec<_> = ids.collect();
            let other = other.permit_expirable_semaphore("x");
            let released = other.release_all(&ids).await.unwrap();
            assert_eq!(released, [PermitRelease::Released; 3]);
        })
        .await;
        // Nobody gives such an id back, so the client that took it stops the copies.
        doubled("permits that are left to their lease", async |backend| {
            let (client, _) = lost(backend, &POOL.acquire, how).await;
            let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
            let before = backend.script_calls();
            let ids = permits.acquire_many(3).lease(100 * MS).await.unwrap();
            assert!(backend.script_calls() - before >= 2, "no reply was lost");
            client.settled().await;
            let held = permits.totals().await.unwrap().acquired;
            assert_eq!(held, 3, "stopping copies takes nothing back of {ids:?}");
            backend.pass(200 * MS).await;
            assert_eq!(permits.totals().await.unwrap().acquired, 0);
            assert_tables_empty(&client).await;
        })
        .await;
    }
    doubled(
        "a call under way of a client that closes",
        async |backend| {
            let (client, other) = lost(backend, &REENTRANT.acquire, LostReply::Hangs).await;
            let flying = tokio::spawn(client.lock("x").lock().into_future());
            backend.pass(100 * MS).await;
            assert!(other.lock("x").is_locked().await.unwrap(), "taken, unknown");
            client.close_now().await;
            assert_fails(flying.await.unwrap(), ErrorKind::Closed);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn copies_of_other_calls_change_nothing() {
    doubled("permits with ids", async |backend| {
        let client = backend.client().await;
        let permits = client.permit_expirable_semaphore("x").permits_if_unset(4);
        let ids = permits.acquire_many(3).await.unwrap();
        permits.release_all(&ids).await.unwrap();
        let id = permits.acquire().await.unwrap();
        permits.release(&id).await.unwrap();
        assert_eq!(permits.totals().await.unwrap().acquired, 0);
    })
    .await;
    doubled("an upgrade and a downgrade", async |backend| {
        let client = backend.client().await;
        let lock = client.read_write_lock("x");
        let write = lock.upgradable_read().await.unwrap().upgrade().await;
        let read = write.unwrap().downgrade().await.unwrap();
        read.release().await.unwrap();
    })
    .await;
    doubled("forced ends", async |backend| {
        let client = backend.client().await;
        let lock = client.lock("x");
        let guard = lock.lock().await.unwrap();
        assert!(lock.force_release().await.unwrap());
        drop(guard);
    })
    .await;
    doubled("several names", async |backend| {
        let (client, other) = (backend.client().await, backend.client().await);
        let both = |client: &Client| {
            let (x, y) = (client.lock("x"), client.lock("y"));
            client.multi_lock(&[&x, &y])
        };
        let held = both(&other).lock().await.unwrap();
        assert!(both(&client).try_lock().await.unwrap().is_none());
        held.release().await.unwrap();
        drop(both(&client).lock().await.unwrap());
    })
    .await;
    doubled("an old layout with a lost value", async |backend| {
        let client = backend.client().await;
        let guard = SetNx::new(&client, "x").lock().await.unwrap();
        backend.command(&["DEL", "x"]);
        drop(guard);
    })
    .await;
}
