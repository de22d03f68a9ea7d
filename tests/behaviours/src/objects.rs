//! One walk over the objects of all kinds.

use std::collections::BTreeMap;

use redlatch::{Access, Client, ErrorKind, HoldState, Object, ObjectKind, ObjectState, once::Once};
use redlatch_tests::{fixture::waiting, wait::unique_name};

use crate::prelude::*;

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
    let mut walk = client.objects(pattern);
    let mut found = BTreeMap::new();
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

async fn walk_finds_objects_of_all_kinds_with_their_holders(backend: &Backend) {
    let client = backend.builder().application("night-shift").connect();
    let client = client.await.unwrap();
    let observer = backend.client().await;
    let base = unique_name("all");
    let name = |kind: &str| format!("{base}/{kind}");
    let lock = client.lock(name("lock")).lock().await.unwrap();
    let fair = client.fair_lock(name("fair")).lock().await.unwrap();
    let rw = client.read_write_lock(name("rw"));
    let read = (rw.read().await.unwrap(), rw.read().await.unwrap());
    let semaphore = client.semaphore(name("semaphore")).permits_if_unset(5);
    let two = semaphore.acquire_many(2).await.unwrap();
    let permits = client.permit_expirable_semaphore(name("permits"));
    let permits = permits.permits_if_unset(3);
    let id = permits.acquire().await.unwrap();
    let latch = client.count_down_latch(name("latch"));
    latch.try_set_count(2).ttl(60 * SECOND).await.unwrap();
    let limiter = client.rate_limiter(name("limit")).rate(2, 3600 * SECOND);
    assert!(limiter.try_acquire(2).await.unwrap().pass().is_some());

    let found = all(&observer, &format!("{base}/*")).await;
    let kinds: Vec<_> = found.values().map(|object| object.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "fair",
            "latch",
            "limit",
            "lock",
            "permits",
            "rw",
            "semaphore"
        ]
    );
    for object in found.values() {
        assert_held_by(&client, object);
    }
    let object = |kind: &str| &found[&name(kind)];
    assert_eq!(object("lock").holders[0].token, Some(lock.token()));
    assert_eq!(object("fair").holders[0].token, Some(fair.token()));
    let accesses: Vec<_> = object("rw").holders.iter().map(|h| h.access).collect();
    assert_eq!(accesses, [Some(Access::Read); 2]);
    let numbers = |total, available| ObjectState::Permits { total, available };
    assert_eq!(object("semaphore").state, numbers(5, 3));
    assert_eq!(object("semaphore").holders[0].permits, Some(2));
    assert_eq!(object("permits").state, numbers(3, 2));
    assert_eq!(object("permits").holders[0].owner, id.to_string());
    let ObjectState::Latch(info) = &object("latch").state else {
        panic!("{:?}", object("latch"));
    };
    assert_eq!((info.count, info.initial), (2, 2));
    let ObjectState::Limit(info) = &object("limit").state else {
        panic!("{:?}", object("limit"));
    };
    assert_eq!((info.owed, info.rate), (2, Some((1, 1800 * SECOND))));
    assert!(info.reset_after > 3500 * SECOND, "{info:?}");

    let one = observer.object(&name("fair")).await.unwrap().unwrap();
    assert_eq!(one.holders[0].token, Some(fair.token()));
    drop((lock, fair, read, two));
    latch.delete().await.unwrap();
    semaphore.delete().await.unwrap();
    permits.delete().await.unwrap();
    client.close(SECOND).await;
}

async fn free_names_are_left_out_and_unknown_kinds_are_not(backend: &Backend) {
    let client = backend.client().await;
    let base = unique_name("free");
    let freed = format!("{base}/freed");
    let held = client.lock(&freed).lock().await.unwrap();
    held.release().await.unwrap();
    assert_eq!(client.lock(&freed).holders().await.unwrap(), []);
    let unknown = format!("redlatch:{{{base}/unknown}}");
    backend.command(&["HSET", &unknown, "k", "cauldron:7"]);

    let found = all(&client, &format!("{base}/*")).await;
    let kinds: Vec<_> = found.values().map(|object| &object.kind).collect();
    assert_eq!(kinds, [&ObjectKind::Other("cauldron:7".to_owned())]);
    assert_eq!(client.object(&freed).await.unwrap(), None);
    backend.command(&["DEL", &unknown]);
}

async fn objects_that_cannot_be_read_are_told_and_the_walk_goes_on(backend: &Backend) {
    let client = backend.client().await;
    let base = unique_name("broken");
    let key = |name: &str| format!("redlatch:{{{base}/{name}}}");
    let semaphore = client.semaphore(format!("{base}/part"));
    semaphore.try_set_permits(2).await.unwrap();
    let held = semaphore.acquire().await.unwrap();
    backend.command(&["SET", &key("text"), "of another program"]);
    backend.command(&["HSET", &key("hash"), "colour", "blue"]);
    backend.command(&["HSET", &key("lock"), "k", "lock:1", "o", "x:1"]);
    backend.command(&["HSET", &key("fair"), "k", "fair:1", "o", "x:1", "u", "soon"]);
    let parts = backend.keys().into_iter();
    let mut parts = parts.filter(|part| part.contains("/part}") && *part != key("part"));
    let part = &parts.next().unwrap();
    backend.command(&["DEL", part]);
    backend.command(&["SET", part, "of another program"]);
    let kept = client.lock(format!("{base}/kept")).lock().await.unwrap();

    let found = all(&client, &format!("{base}/*")).await;
    let of = |name: &str| &found[&format!("{base}/{name}")];
    for (name, kind, class) in [
        ("text", ObjectKind::Unknown, ErrorKind::WrongKind),
        ("hash", ObjectKind::Unknown, ErrorKind::WrongKind),
        ("lock", ObjectKind::Lock, ErrorKind::Protocol),
        ("fair", ObjectKind::FairLock, ErrorKind::Protocol),
        ("part", ObjectKind::Semaphore, ErrorKind::WrongKind),
    ] {
        let object = of(name);
        assert_eq!(object.kind, kind, "{object:?}");
        let ObjectState::Unreadable { kind, .. } = object.state else {
            panic!("{object:?}");
        };
        assert_eq!(kind, class, "{object:?}");
        assert_fails(client.object(&object.name).await, class);
    }
    assert_eq!(of("kept").holders[0].token, Some(kept.token()));
    assert_eq!(found.len(), 6);
    for name in ["text", "hash", "lock", "fair"] {
        backend.command(&["DEL", &key(name)]);
    }
    backend.command(&["DEL", part]);
    drop(held);
    semaphore.delete().await.unwrap();
}

async fn patterns_select_names(backend: &Backend) {
    let client = backend.client().await;
    let base = unique_name("glob");
    let names = ["a1", "a2", "b1", "a*"].map(|name| format!("{base}/{name}"));
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.lock(name).lock().await.unwrap());
    }
    for (pattern, count) in [("a?", 3), ("a\\*", 1), ("[ab]1", 2), ("*", 4), ("c", 0)] {
        let found = all(&client, &format!("{base}/{pattern}")).await;
        assert_eq!(found.len(), count, "{pattern}: {:?}", found.keys());
    }
}

async fn waiters_are_counted(backend: &Backend) {
    let client = backend.client().await;
    let other = backend.client().await;
    let name = unique_name("queue");
    let guard = client.lock(&name).lock().await.unwrap();
    let waiter = waiting(other.lock(&name));
    wait_for("the waiter to be seen", async || {
        let object = client.object(&name).await.unwrap().unwrap();
        assert_eq!(object.holders.len(), 1);
        object.waiters == 1
    })
    .await;
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}

async fn job_under_way_and_its_last_run_are_shown(backend: &Backend) {
    let client = backend.client().await;
    let name = unique_name("job");
    let first = client
        .once(&name)
        .slot("1")
        .run(async |_| Ok::<_, String>(()));
    assert!(matches!(first.await.unwrap(), Once::Ran(())));
    let observer = backend.client().await;
    let look = async |run: &redlatch::once::JobRun| {
        let object = observer.object(&name).await.unwrap().unwrap();
        assert_eq!(object.holders[0].token, Some(run.token()));
        assert_eq!(object.kind, ObjectKind::Job);
        let ObjectState::Job { last, running } = object.state else {
            panic!("{object:?}");
        };
        assert_eq!(last.unwrap().slot.key(), Some("1"));
        assert_eq!(running.unwrap().key(), Some("2"));
        Ok::<_, String>(())
    };
    let second = client.once(&name).slot("2").run(look);
    assert!(matches!(second.await.unwrap(), Once::Ran(())));
    let object = observer.object(&name).await.unwrap().unwrap();
    assert!(object.holders.is_empty(), "{object:?}");
    client.once(&name).reset().await.unwrap();
}

async fn revoked_permits_are_free_and_their_holder_learns_of_it(backend: &Backend) {
    let client = backend.client().await;
    let operator = backend.client().await;
    let name = unique_name("revoke");
    let semaphore = client.semaphore(&name).permits_if_unset(2);
    let lease = backend.at_leisure(Duration::from_secs(1));
    let lost = semaphore.acquire().renewed_lease(lease).await.unwrap();
    let kept = semaphore.acquire().renewed_lease(lease).await.unwrap();
    let seen = operator.semaphore(&name);
    let holders = seen.holders().await.unwrap();
    assert_eq!(holders.len(), 2);
    let ids = holders.iter().map(|holder| holder.id.clone());
    let first = ids.min().unwrap();
    assert!(seen.revoke(&first).await.unwrap());
    assert!(!seen.revoke(&first).await.unwrap(), "it is over");
    assert_eq!(seen.available_permits().await.unwrap(), 1);
    // One of them is told at its next renewal, and the other one is not.
    let ended = futures_util::future::select(Box::pin(lost.lost()), Box::pin(kept.lost())).await;
    drop(ended);
    let lost = [&lost, &kept].map(|permit| matches!(permit.state(), HoldState::Lost(_)));
    assert_eq!(lost.iter().filter(|lost| **lost).count(), 1);
    semaphore.delete().await.unwrap();
}
