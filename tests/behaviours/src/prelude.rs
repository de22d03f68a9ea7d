//! What most tests use.

pub use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub use futures_util::future::{join_all, try_join_all};
pub use redlatch::{
    AnyGuard, Backoff, Client, Durability, Election, Error, ErrorKind, HoldState, Lock, LockGuard,
    Lockable, LossCause, MultiLock, Released, Term, WaitStrategy,
    once::{Job, JobRun, Once},
};
pub use redlatch_tests::{
    backend::{Backend, assert_all_empty, assert_tables_empty},
    fixture::{MS, SECOND, assert_nothing_left, key, preload},
    proxy::Proxy,
    server::{Server, ServerBinary, ServerOptions},
    wait::{GENEROUS, eventually, eventually_blocking, wait_for},
};
pub use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

pub(crate) use crate::given::Emptied;

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

/// Starts so many tasks.
pub fn spawned<F>(many: usize, task: impl FnMut(usize) -> F) -> Vec<JoinHandle<F::Output>>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    (0..many).map(task).map(tokio::spawn).collect()
}

/// Waits for the end of each task, and returns what they returned.
pub async fn finished<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let mut ended = Vec::new();
    for task in tasks {
        ended.push(task.await.unwrap());
    }
    ended
}

/// Closes the client once `work` has begun, and returns what `work` returns.
pub async fn closed_beside<T>(
    client: &Client,
    grace: Duration,
    begun: &Notify,
    work: impl Future<Output = T>,
) -> T {
    let close = async {
        begun.notified().await;
        client.close(grace).await;
    };
    tokio::join!(work, close).0
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
