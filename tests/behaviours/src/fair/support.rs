//! What tests of the fair lock have in common.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
};

use redlatch::{Client, FairLock, FairLockGuard};
use redlatch_tests::{
    backend::Backend,
    wait::{GENEROUS, eventually},
};
use tokio::task::JoinHandle;

/// Who was granted, in order.
#[derive(Clone, Debug, Default)]
pub struct Grants(Arc<Mutex<Vec<usize>>>);

impl Grants {
    pub fn note(&self, who: usize) {
        self.0.lock().unwrap().push(who);
    }

    pub fn list(&self) -> Vec<usize> {
        self.0.lock().unwrap().clone()
    }
}

/// Starts to wait and returns once the server has the ticket.
pub async fn queued(lock: &FairLock) -> JoinHandle<FairLockGuard> {
    let owner = lock.client().owner();
    let task = tokio::spawn(lock.lock().owner(&owner).into_future());
    eventually("a waiter to queue", GENEROUS, async || {
        lock.position(&owner).await.unwrap().is_some()
    })
    .await;
    tokio::spawn(async move { task.await.unwrap().unwrap() })
}

/// Starts to wait as number `who`, which notes its grant and releases at once; returns once the
/// server has the ticket.
pub async fn queued_as(who: usize, lock: &FairLock, grants: &Grants) -> JoinHandle<()> {
    let (waiting, grants) = (queued(lock).await, grants.clone());
    tokio::spawn(async move {
        let guard = waiting.await.unwrap();
        grants.note(who);
        guard.release().await.unwrap();
    })
}

/// Connects `n` clients, which listen to what is said about `x`.
pub async fn clients(backend: &Backend, n: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..n {
        clients.push(backend.client().await);
    }
    #[cfg(unix)]
    if let Backend::Shared(_) = backend {
        for client in &clients {
            listens(client).await;
        }
    }
    clients
}

/// Lets a client wait once where `x` is: in a cluster it listens to a shard from its first wait on.
#[cfg(unix)]
async fn listens(client: &Client) {
    let lock = client.lock("{x}listens");
    let guard = lock.lock().await.unwrap();
    let waiter = tokio::spawn({
        let waiting = lock.lock().owner(&client.owner()).into_future();
        async move { waiting.await.unwrap() }
    });
    eventually("the waiter to listen", GENEROUS, async || {
        lock.info()
            .await
            .unwrap()
            .is_some_and(|info| info.waiters == 1)
    })
    .await;
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}
