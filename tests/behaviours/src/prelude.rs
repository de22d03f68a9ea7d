//! What most tests use.

pub use std::time::Duration;

use redlatch::{Client, Error, ErrorKind};
pub use redlatch_tests::{
    backend::{Backend, assert_tables_empty},
    wait::{GENEROUS, eventually, wait_for},
};
use tokio::task::JoinHandle;
pub use tokio::time::Instant;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// Connects so many clients, one after the other.
pub async fn clients<const N: usize>(backend: &Backend) -> [Client; N] {
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(backend.client().await);
    }
    clients.try_into().unwrap()
}

/// Starts an embedded server and connects so many clients.
pub async fn embedded<const N: usize>() -> (Backend, [Client; N]) {
    let backend = Backend::embedded();
    let clients = clients(&backend).await;
    (backend, clients)
}

/// Starts an embedded server that knows all scripts, and connects so many clients.
pub async fn preloaded<const N: usize>() -> (Backend, [Client; N]) {
    let backend = Backend::embedded();
    backend.preload();
    let clients = clients(&backend).await;
    (backend, clients)
}

/// Waits for the end of each task, and returns what they returned.
pub async fn finished<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let mut ended = Vec::new();
    for task in tasks {
        ended.push(task.await.unwrap());
    }
    ended
}

/// Checks that a call ended with an error of this kind.
#[track_caller]
pub fn assert_fails<T>(result: Result<T, Error>, kind: ErrorKind) {
    let error = result.map(drop).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
}

/// Checks that a bounded wait ended without a grant, as [`Backend::assert_not_granted`] does.
#[track_caller]
pub fn assert_busy<T>(backend: &Backend, waited: Result<Option<T>, Error>) {
    backend.assert_not_granted(waited.map(|guard| guard.is_some()));
}
