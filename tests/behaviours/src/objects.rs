//! One walk over the objects of all kinds.

use std::collections::BTreeMap;

use futures_util::future::select;
use redlatch::{Access, Object, ObjectKind, ObjectState};

use crate::{holds::key, lock::waiting, prelude::*};

behaviours! {
    Everywhere:
        walk_finds_objects_of_all_kinds_with_their_holders;
    Cluster:
        objects_that_cannot_be_read_are_told_and_the_walk_goes_on,
        patterns_select_names,
        waiters_are_counted;
    Single:
        free_names_are_left_out_and_unknown_kinds_are_not,
        job_under_way_and_its_last_run_are_shown,
        revoked_permits_are_free_and_their_holder_learns_of_it;
}

/// Returns the objects of a walk by name. A walk may return one twice.
async fn all(client: &Client, pattern: &str) -> BTreeMap<String, Object> {
    let (mut walk, mut found) = (client.objects(pattern), BTreeMap::new());
    while let Some(object) = walk.next().await {
        let object = object.unwrap();
        found.insert(object.name.clone(), object);
    }
    assert!(walk.next().await.is_none(), "a walk that is over stays so");
    found
}

/// Checks what is shown of the holders of `object`, which is `client` alone.
fn assert_held_by(client: &Client, object: &Object) {
    for holder in &object.holders {
        assert!(holder.owner.starts_with(client.id().as_str()), "{object:?}");
        let of = holder.metadata.as_ref().unwrap();
        assert_eq!(of.application, "night-shift", "{object:?}");
        assert_eq!(of.pid, std::process::id(), "{object:?}");
        assert!(!of.host.is_empty() && of.connected_at > 1_000_000_000_000);
        assert!(holder.remaining > 5 * SECOND, "{object:?}");
    }
}

async fn walk_finds_objects_of_all_kinds_with_their_holders(backend: &Backend, observer: Client) {
    let client = backend.builder().application("night-shift").connect();
    let client = client.await.unwrap();
    let lock = client.lock("lock").lock().await.unwrap();
    let fair = client.fair_lock("fair").lock().await.unwrap();
    let rw = client.read_write_lock("rw");
    let _read = [rw.read().await.unwrap(), rw.read().await.unwrap()];
    let semaphore = client.semaphore("semaphore").permits_if_unset(5);
    let _two = semaphore.acquire_many(2).await.unwrap();
    let permits = client.permit_expirable_semaphore("permits");
    let id = permits.permits_if_unset(3).acquire().await.unwrap();
    let latch = client.count_down_latch("latch");
    latch.try_set_count(2).ttl(60 * SECOND).await.unwrap();
    let limiter = client.rate_limiter("limit").rate(2, 3600 * SECOND);
    assert!(limiter.try_acquire(2).await.unwrap().pass().is_some());

    let found = all(&observer, "*").await;
    let kinds: Vec<_> = found.values().map(|object| object.kind.as_str()).collect();
    let expected = "fair latch limit lock permits rw semaphore";
    assert_eq!(kinds.join(" "), expected);
    for object in found.values() {
        assert_held_by(&client, object);
    }
    assert_eq!(found["lock"].holders[0].token, Some(lock.token()));
    assert_eq!(found["fair"].holders[0].token, Some(fair.token()));
    let accesses: Vec<_> = found["rw"].holders.iter().map(|h| h.access).collect();
    assert_eq!(accesses, [Some(Access::Read); 2]);
    let numbers = |total, available| ObjectState::Permits { total, available };
    assert_eq!(found["semaphore"].state, numbers(5, 3));
    assert_eq!(found["semaphore"].holders[0].permits, Some(2));
    assert_eq!(found["permits"].state, numbers(3, 2));
    assert_eq!(found["permits"].holders[0].owner, id.to_string());
    let ObjectState::Latch(info) = &found["latch"].state else {
        panic!("{found:?}");
    };
    assert_eq!((info.count, info.initial), (2, 2));
    let ObjectState::Limit(info) = &found["limit"].state else {
        panic!("{found:?}");
    };
    assert_eq!((info.owed, info.rate), (2, Some((1, 1800 * SECOND))));
    assert!(info.reset_after > 3500 * SECOND, "{info:?}");

    let one = observer.object("fair").await.unwrap().unwrap();
    assert_eq!(one.holders[0].token, Some(fair.token()));
}

async fn free_names_are_left_out_and_unknown_kinds_are_not(backend: &Backend, client: Client) {
    let freed = client.lock("freed");
    freed.lock().await.unwrap().release().await.unwrap();
    assert_eq!(freed.holders().await.unwrap(), []);
    backend.command(&["HSET", &key("unknown"), "k", "cauldron:7"]);

    let found = all(&client, "*").await;
    let kinds: Vec<_> = found.values().map(|object| &object.kind).collect();
    assert_eq!(kinds, [&ObjectKind::Other("cauldron:7".to_owned())]);
    assert_eq!(client.object("freed").await.unwrap(), None);
}

async fn objects_that_cannot_be_read_are_told_and_the_walk_goes_on(backend: &Backend) {
    let client = backend.client().await;
    let _held = client.semaphore("part").permits_if_unset(2).acquire().await;
    backend.command(&["SET", &key("text"), "of another program"]);
    backend.command(&["HSET", &key("hash"), "colour", "blue"]);
    backend.command(&["HSET", &key("lock"), "k", "lock:1", "o", "x:1"]);
    backend.command(&["HSET", &key("fair"), "k", "fair:1", "o", "x:1", "u", "soon"]);
    let mut parts = backend.keys();
    parts.retain(|part| part.starts_with("redlatch:{part}:"));
    backend.command(&["DEL", &parts[0]]);
    backend.command(&["SET", &parts[0], "of another program"]);
    let kept = client.lock("kept").lock().await.unwrap();

    let found = all(&client, "*").await;
    for (name, kind, class) in [
        ("text", ObjectKind::Unknown, ErrorKind::WrongKind),
        ("hash", ObjectKind::Unknown, ErrorKind::WrongKind),
        ("lock", ObjectKind::Lock, ErrorKind::Protocol),
        ("fair", ObjectKind::FairLock, ErrorKind::Protocol),
        ("part", ObjectKind::Semaphore, ErrorKind::WrongKind),
    ] {
        let object = &found[name];
        assert_eq!(object.kind, kind, "{object:?}");
        let ObjectState::Unreadable { kind, .. } = object.state else {
            panic!("{object:?}");
        };
        assert_eq!(kind, class, "{object:?}");
        assert_fails(client.object(&object.name).await, class);
    }
    assert_eq!(found["kept"].holders[0].token, Some(kept.token()));
    assert_eq!(found.len(), 6);
}

async fn patterns_select_names(client: Client) {
    let mut guards = Vec::new();
    for name in ["a1", "a2", "b1", "a*"] {
        guards.push(client.lock(name).lock().await.unwrap());
    }
    for (pattern, count) in [("a?", 3), ("a\\*", 1), ("[ab]1", 2), ("*", 4), ("c", 0)] {
        let found = all(&client, pattern).await;
        assert_eq!(found.len(), count, "{pattern}: {:?}", found.keys());
    }
}

async fn waiters_are_counted([client, other]: [Client; 2]) {
    let guard = client.lock("x").lock().await.unwrap();
    let waiter = waiting(other.lock("x"));
    wait_for("the waiter to be seen", async || {
        let object = client.object("x").await.unwrap().unwrap();
        assert_eq!(object.holders.len(), 1);
        object.waiters == 1
    })
    .await;
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}

async fn job_under_way_and_its_last_run_are_shown([client, observer]: [Client; 2]) {
    let first = client.once("x").slot("1");
    let first = first.run(async |_| Ok::<_, String>(()));
    assert!(matches!(first.await.unwrap(), Once::Ran(())));
    let look = async |run: &JobRun| {
        let object = observer.object("x").await.unwrap().unwrap();
        assert_eq!(object.holders[0].token, Some(run.token()));
        assert_eq!(object.kind, ObjectKind::Job);
        let ObjectState::Job { last, running } = object.state else {
            panic!("{object:?}");
        };
        assert_eq!(last.unwrap().slot.key(), Some("1"));
        assert_eq!(running.unwrap().key(), Some("2"));
        Ok::<_, String>(())
    };
    let second = client.once("x").slot("2").run(look);
    assert!(matches!(second.await.unwrap(), Once::Ran(())));
    let object = observer.object("x").await.unwrap().unwrap();
    assert!(object.holders.is_empty(), "{object:?}");
}

async fn revoked_permits_are_free_and_their_holder_learns_of_it(backend: &Backend) {
    let (client, operator) = (backend.client().await, backend.client().await);
    let semaphore = client.semaphore("x").permits_if_unset(2);
    let lease = backend.at_leisure(SECOND);
    let lost = semaphore.acquire().renewed_lease(lease).await.unwrap();
    let kept = semaphore.acquire().renewed_lease(lease).await.unwrap();
    let seen = operator.semaphore("x");
    let holders = seen.holders().await.unwrap();
    assert_eq!(holders.len(), 2);
    let ids = holders.iter().map(|holder| holder.id.clone());
    let first = ids.min().unwrap();
    assert!(seen.revoke(&first).await.unwrap());
    assert!(!seen.revoke(&first).await.unwrap(), "it is over");
    assert_eq!(seen.available_permits().await.unwrap(), 1);
    // One of them is told at its next renewal, and the other one is not.
    drop(select(Box::pin(lost.lost()), Box::pin(kept.lost())).await);
    let lost = [&lost, &kept].map(|permit| matches!(permit.state(), HoldState::Lost(_)));
    assert_eq!(lost.iter().filter(|lost| **lost).count(), 1);
}
