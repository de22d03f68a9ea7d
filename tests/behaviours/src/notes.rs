//! Notes: why somebody holds, for others to see.

use redlatch::Object;

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

async fn notes_of_all_kinds_are_shown_with_their_holders([client, observer]: [Client; 2]) {
    let lock = client.lock("lock").lock().note("db upgrade");
    let fair = client.fair_lock("fair").try_lock().note("a fair one");
    let rw = client.read_write_lock("rw").read().note("reads");
    let semaphore = client.semaphore("semaphore").permits_if_unset(2);
    let permit = semaphore.acquire().note("größe");
    let permits = client.permit_expirable_semaphore("permits");
    let id = permits.permits_if_unset(2).try_acquire_for(SECOND);
    let members = [client.lock("m1"), client.lock("m2")];
    let all = client.multi_lock(&[&members[0], &members[1]]);
    let all = all.try_lock_for(SECOND).note("both");
    let (_lock, _fair) = (lock.await.unwrap(), fair.await.unwrap().unwrap());
    let (_read, _permit) = (rw.await.unwrap(), permit.await.unwrap());
    let _all = all.await.unwrap().unwrap();
    assert!(id.note("by id").await.unwrap().is_some());

    for (kind, text) in [
        ("lock", "db upgrade"),
        ("fair", "a fair one"),
        ("rw", "reads"),
        ("semaphore", "größe"),
        ("permits", "by id"),
        ("m1", "both"),
        ("m2", "both"),
    ] {
        let object = observer.object(kind).await.unwrap().unwrap();
        assert_eq!(note(&object), Some(text), "{object:?}");
    }
    let holders = observer.lock("lock").holders().await.unwrap();
    assert_eq!(holders[0].note.as_deref(), Some("db upgrade"));
    let mut walk = observer.locks("lock");
    let holder = walk.next().await.unwrap().unwrap();
    assert_eq!(holder.note.as_deref(), Some("db upgrade"));
    let holders = observer.read_write_lock("rw").holders().await;
    assert_eq!(holders.unwrap()[0].note.as_deref(), Some("reads"));
}

async fn longest_note_is_kept_whole(lock: Lock) {
    let longest = "x".repeat(256);
    let _held = lock.lock().note("").note(&longest).await.unwrap();
    assert_eq!(lock.holders().await.unwrap()[0].note, Some(longest));
}

async fn note_is_not_shown_with_a_later_hold_of_its_owner(lock: Lock) {
    let owner = lock.client().owner();
    let held = lock.lock().owner(&owner).note("the first time");
    held.await.unwrap().release().await.unwrap();
    let _held = lock.lock().owner(&owner).await.unwrap();
    let holder = lock.holders().await.unwrap().remove(0);
    assert_eq!((holder.info.owner, holder.note), (owner.to_string(), None));
}

/// A version without notes writes a record without the field `notes`, reads the four fields that
/// it knows, and never asks for a note.
async fn clients_with_and_without_notes_share_a_server(backend: &Backend) {
    let (with, without) = (backend.client().await, backend.client().await);
    let record = |client: &Client| format!("redlatch:{{{}}}:m", client.id());
    let old = r#"{"app":"old","host":"h","pid":7,"since":1700000000000}"#;
    backend.command(&["SET", &record(&without), old, "PX", "60000"]);

    let held = without.lock("x").lock().await.unwrap();
    let object = with.object("x").await.unwrap().unwrap();
    assert_eq!(note(&object), None);
    let of = object.holders[0].metadata.as_ref().unwrap();
    let shown = (of.application.as_str(), of.host.as_str(), of.pid);
    assert_eq!(shown, ("old", "h", 7));
    held.release().await.unwrap();

    let held = with.lock("x").lock().note("new").await.unwrap();
    // What the other version makes of the record, and its way through the lock.
    let text = backend.string(&record(&with)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let has_texts = json["host"].is_string() && json["app"].is_string();
    let has_numbers = json["pid"].is_u64() && json["since"].is_u64();
    assert!(has_texts && has_numbers && json["notes"] == true, "{text}");
    assert!(without.lock("x").try_lock().await.unwrap().is_none());
    held.release().await.unwrap();
    let held = without.lock("x").lock().await.unwrap();
    held.release().await.unwrap();
}

async fn notes_go_with_later_notes_and_with_their_client(backend: &Backend, client: Client) {
    let part = format!("redlatch:{{{}}}:n:", client.id());
    let notes = || {
        let mut keys = backend.keys();
        keys.retain(|key| key.starts_with(&part));
        keys
    };
    let lease = 2 * SECOND;
    let first = client.lock("1").lock().lease(lease);
    let first = first.note("first").await.unwrap();
    assert_eq!(notes().len(), 1);
    assert!(notes().iter().all(|key| backend.ends(key)), "it has a TTL");
    first.lost().await;
    drop(first);
    backend.pass_lease(lease).await;
    let second = client.lock("2").lock();
    let second = second.note("second").await.unwrap();
    let left = notes();
    assert!(left.len() == 1 && left[0].ends_with(":2"), "{left:?}");
    second.release().await.unwrap();
    client.close(SECOND).await;
    assert_eq!(notes(), [""; 0]);
}
