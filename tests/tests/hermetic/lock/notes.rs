//! Notes of locks, where the server refuses a part of them or is far away.

use redlatch::runtime::ServerError;
use redlatch_embedded::calls;
use redlatch_tests::slow::far_client;

use crate::prelude::*;

/// The first note of a client changes its record as well.
#[tokio::test(start_paused = true)]
async fn note_after_a_refused_record_is_shown() {
    let (backend, [client, observer]) = embedded().await;
    let refusal = "NOPERM this user has no permissions to run the 'set' command";
    let server = backend.embedded_server();
    server.fail_next(calls::named("SET"), ServerError::parse(refusal));
    let (first, second) = (client.lock("first"), client.lock("second"));
    let first = first.lock().note("refused").await.unwrap();
    let second = second.lock().note("written").await.unwrap();
    let note = async |name: &str| {
        let mut holders = observer.lock(name).holders().await.unwrap();
        holders.remove(0).note
    };
    assert_eq!(note("second").await.as_deref(), Some("written"));
    assert_eq!(note("first").await, None);
    drop((first, second));
}

/// One after the other, they would take longer than the time for one.
#[tokio::test(start_paused = true)]
async fn all_notes_of_a_far_client_are_renewed() {
    let backend = Backend::embedded();
    let client = far_client(&backend, 50 * MS).await;
    let mut held = Vec::new();
    for number in 0..40 {
        let lock = client.lock(format!("n{number}"));
        let lock = lock.lock().renewed_lease(600 * SECOND);
        held.push(lock.note("import").await.unwrap());
    }
    let notes = || {
        let keys = backend.keys();
        keys.iter().filter(|key| key.contains("}:n:")).count()
    };
    assert_eq!(notes(), 40);
    backend.pass(70 * 60 * SECOND).await;
    assert_eq!(notes(), 40);
    drop(held);
}
