//! What may not be asked.

use std::time::Duration;

use redlatch::{Error, ErrorKind};
use redlatch_tests::backend::{Backend, assert_tables_empty};

const MS: Duration = Duration::from_millis(1);

behaviours! {
    Single:
        wrong_names_leases_and_counts_are_refused_and_send_nothing,
        name_of_another_kind_is_a_typed_error,
        shortest_and_longest_leases_work;
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

async fn wrong_names_leases_and_counts_are_refused_and_send_nothing(backend: &Backend) {
    let client = backend.client().await;
    let before = backend.script_calls();
    for name in [String::new(), "x".repeat(513)] {
        let semaphore = client.semaphore(&name);
        assert_eq!(semaphore.name(), None);
        assert_eq!(kind(semaphore.acquire().await), ErrorKind::InvalidName);
        assert_eq!(kind(semaphore.set_permits(1).await), ErrorKind::InvalidName);
        assert_eq!(kind(semaphore.add_permits(1).await), ErrorKind::InvalidName);
        assert_eq!(kind(semaphore.totals().await), ErrorKind::InvalidName);
        assert_eq!(kind(semaphore.holders().await), ErrorKind::InvalidName);
    }
    let semaphore = client.semaphore("x").permits_if_unset(5);
    assert_eq!(
        kind(semaphore.acquire_many(0).await),
        ErrorKind::InvalidOption
    );
    assert_eq!(
        kind(semaphore.try_acquire_many(0).await),
        ErrorKind::InvalidOption
    );
    let invalid = ErrorKind::InvalidLease;
    assert_eq!(kind(semaphore.acquire().lease(49 * MS).await), invalid);
    assert_eq!(
        kind(semaphore.acquire().renewed_lease(999 * MS).await),
        invalid
    );
    let year = Duration::from_secs(365 * 86_400);
    assert_eq!(kind(semaphore.acquire().lease(year + MS).await), invalid);
    assert_eq!(backend.script_calls(), before);
    assert_tables_empty(&client).await;
}

async fn name_of_another_kind_is_a_typed_error(backend: &Backend) {
    let client = backend.client().await;
    let guard = client.lock("x").lock().await.unwrap();
    let semaphore = client.semaphore("x").permits_if_unset(5);
    let wrong = ErrorKind::WrongKind;
    assert_eq!(kind(semaphore.acquire().await), wrong);
    assert_eq!(kind(semaphore.set_permits(1).await), wrong);
    assert_eq!(kind(semaphore.totals().await), wrong);
    assert_eq!(kind(semaphore.holders().await), wrong);
    drop(guard);
    let permits = client.permit_expirable_semaphore("y").permits_if_unset(1);
    permits.acquire().await.unwrap();
    assert_eq!(kind(client.semaphore("y").acquire().await), wrong);
    assert_eq!(kind(client.lock("y").lock().await), wrong);
    backend.command(&["SET", "redlatch:{z}", "text"]);
    assert_eq!(
        kind(client.semaphore("z").permits_if_unset(1).acquire().await),
        wrong
    );
    assert_tables_empty(&client).await;
}

async fn shortest_and_longest_leases_work(backend: &Backend) {
    let client = backend.client().await;
    let semaphore = client.semaphore("x").permits_if_unset(2);
    let year = Duration::from_secs(365 * 86_400);
    let long = semaphore.acquire().lease(year).await.unwrap();
    assert!(long.remaining() > year / 2);
    // On a machine that is busy so short a lease may be over before it is delivered, and the call
    // goes on trying.
    let short = semaphore.acquire().lease(50 * MS).await.unwrap();
    short.lost().await;
    short.release().await.unwrap();
    assert!(long.release().await.unwrap().is_clean());
    assert_tables_empty(&client).await;
}
