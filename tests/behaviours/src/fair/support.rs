//! What tests of the fair lock have in common.

use std::sync::{Arc, Mutex};

use redlatch::{Client, Error, FairLock, FairLockGuard, Owner};
use tokio::task::JoinHandle;

use crate::{
    lock::{registered, waiting},
    prelude::*,
};

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

/// Waits until the server has the ticket of a waiter.
pub async fn ticket(lock: &FairLock, owner: &Owner) {
    let queued = async || lock.position(owner).await.unwrap().is_some();
    wait_for("a waiter to queue", queued).await;
}

/// Starts to wait and returns once the server has the ticket.
pub async fn waits(lock: &FairLock) -> JoinHandle<Result<FairLockGuard, Error>> {
    let owner = lock.client().owner();
    let task = tokio::spawn(lock.lock().owner(&owner).into_future());
    ticket(lock, &owner).await;
    task
}

/// Starts to wait, which is to succeed, and returns once the server has the ticket.
pub async fn queued(lock: &FairLock) -> JoinHandle<FairLockGuard> {
    let task = waits(lock).await;
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
    let waiter = waiting(lock.clone());
    registered(client, "{x}listens", 1).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}
