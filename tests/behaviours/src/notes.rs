//! Notes: why somebody holds, for others to see.

use redlatch::{Client, Object};
use redlatch_tests::wait::unique_name;

use crate::prelude::*;

behaviours! {
    Everywhere:
        notes_of_all_kinds_are_shown_with_their_holders;
    Cluster:
        clients_with_and_without_notes_share_a_server;
    Single:
        longest_note_is_kept_whole,
        note_is_not_shown_with_a_later_hold_of_its_owner,
        notes_go_with_later_notes_and_with_their_client;
}

/// Returns the only holder's note.
fn note(object: &Object) -> Option<&str> {
    assert_eq!(object.holders.len(), 1, "{object:?}");
    object.holders[0].note.as_deref()
}

async fn notes_of_all_kinds_are_shown_with_their_holders(backend: &Backend) {
    let client = backend.client().await;
    let observer = backend.client().await;
    let base = unique_name("notes");
    let name = |kind: &str| format!("{base}/{kind}");
    let lock = client.lock(name("lock"));
    let lock = lock.lock().note("db upgrade").await.unwrap();
    let fair = client.fair_lock(name("fair"));
    let fair = fair.try_lock().note("a fair one").await.unwrap().unwrap();
    let rw = client.read_write_lock(name("rw"));
    let read = rw.read().note("reads").await.unwrap();
    let semaphore = client.semaphore(name("semaphore")).permits_if_unset(2);
    let permit = semaphore.acquire().note("größe").await.unwrap();
    let permits = client.permit_expirable_semaphore(name("permits"));
    let permits = permits.permits_if_unset(2);
    let id = permits.try_acquire_for(SECOND).note("by id").await;
    let id = id.unwrap().unwrap();
    let members = [client.lock(name("m1")), client.lock(name("m2"))];
    let all = client.multi_lock(&[&members[0], &members[1]]);
    let all = all.try_lock_for(SECOND).note("both").await;
    let all = all.unwrap().unwrap();

    for (kind, text) in [
        ("lock", "db upgrade"),
        ("fair", "a fair one"),
        ("rw", "reads"),
        ("semaphore", "größe"),
        ("permits", "by id"),
        ("m1", "both"),
        ("m2", "both"),
    ] {
        let object = observer.object(&name(kind)).await.unwrap().unwrap();
        assert_eq!(note(&object), Some(text), "{object:?}");
    }
    let holders = observer.lock(name("lock")).holders().await.unwrap();
    assert_eq!(holders[0].note.as_deref(), Some("db upgrade"));
    let mut walk = observer.locks(&name("lock"));
    let holder = walk.next().await.unwrap().unwrap();
    assert_eq!(holder.note.as_deref(), Some("db upgrade"));
    let holders = observer.read_write_lock(name("rw")).holders().await;
    assert_eq!(holders.unwrap()[0].note.as_deref(), Some("reads"));
    drop((lock, fair, read, permit, all));
    permits.release(&id).await.unwrap();
    client.close(SECOND).await;
    let observed = [name("semaphore"), name("permits")];
    observer.semaphore(&observed[0]).delete().await.unwrap();
    let permits = observer.permit_expirable_semaphore(&observed[1]);
    permits.delete().await.unwrap();
}

async fn longest_note_is_kept_whole(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.lock(unique_name("note"));
    let longest = "x".repeat(256);
    let held = lock.lock().note("").note(&longest).await.unwrap();
    let holder = lock.holders().await.unwrap().remove(0);
    assert_eq!(holder.note, Some(longest));
    held.release().await.unwrap();
    client.close(SECOND).await;
}

async fn note_is_not_shown_with_a_later_hold_of_its_owner(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.lock(unique_name("again"));
    let owner = client.owner();
    let held = lock.lock().owner(&owner).note("the first time");
    let held = held.await.unwrap();
    held.release().await.unwrap();
    let held = lock.lock().owner(&owner).await.unwrap();
    let holder = lock.holders().await.unwrap().remove(0);
    assert_eq!((holder.info.owner, holder.note), (owner.to_string(), None));
    held.release().await.unwrap();
    client.close(SECOND).await;
}

/// A version without notes writes a record without the field `notes`, reads the four fields that
/// it knows, and never asks for a note.
async fn clients_with_and_without_notes_share_a_server(backend: &Backend) {
    let (with, without) = (backend.client().await, backend.client().await);
    let name = unique_name("versions");
    let record = |client: &Client| format!("redlatch:{{{}}}:m", client.id());
    let old = r#"{"app":"old","host":"h","pid":7,"since":1700000000000}"#;
    backend.command(&["SET", &record(&without), old, "PX", "60000"]);

    let held = without.lock(&name).lock().await.unwrap();
    let object = with.object(&name).await.unwrap().unwrap();
    assert_eq!(note(&object), None);
    let of = object.holders[0].metadata.as_ref().unwrap();
    assert_eq!(
        (of.application.as_str(), of.host.as_str(), of.pid),
        ("old", "h", 7)
    );
    held.release().await.unwrap();

    let held = with.lock(&name).lock().note("new").await.unwrap();
    // What the other version makes of the record, and its way through the lock.
    let text = backend.string(&record(&with)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(
        json["host"].is_string() && json["app"].is_string(),
        "{text}"
    );
    assert!(json["pid"].is_u64() && json["since"].is_u64(), "{text}");
    assert_eq!(json["notes"], true);
    assert!(without.lock(&name).try_lock().await.unwrap().is_none());
    held.release().await.unwrap();
    let held = without.lock(&name).lock().await.unwrap();
    held.release().await.unwrap();
    with.close(SECOND).await;
}

async fn notes_go_with_later_notes_and_with_their_client(backend: &Backend) {
    let client = backend.client().await;
    let base = unique_name("gone");
    let part = format!("redlatch:{{{}}}:n:", client.id());
    let notes = || {
        let mut keys = backend.keys();
        keys.retain(|key| key.starts_with(&part));
        keys
    };
    let lease = 2 * SECOND;
    let first = client.lock(format!("{base}/1")).lock().lease(lease);
    let first = first.note("first").await.unwrap();
    assert_eq!(notes().len(), 1);
    assert!(notes().iter().all(|key| backend.ends(key)), "it has a TTL");
    first.lost().await;
    drop(first);
    backend.pass_lease(lease).await;
    let second = client.lock(format!("{base}/2"));
    let second = second.lock().note("second").await.unwrap();
    let left = notes();
    assert!(left.len() == 1 && left[0].ends_with("/2"), "{left:?}");
    second.release().await.unwrap();
    client.close(SECOND).await;
    assert_eq!(notes(), [""; 0]);
}
