//! What may not be asked of a name, and the bounds of a lease.

use std::time::Duration;

use redlatch::{Error, ErrorKind};
use redlatch_tests::backend::{Backend, assert_tables_empty};

const MS: Duration = Duration::from_millis(1);

behaviours! {
    Single:
        name_of_another_kind_is_a_typed_error,
        shortest_and_longest_leases_work;
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
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
