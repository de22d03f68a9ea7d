//! What tests of the fair lock have in common.

use std::{
    ops::{Deref, Index},
    slice::from_ref,
};

use redlatch::{FairLock, FairLockGuard, Owner};

use crate::{
    given::{Given, Ground},
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

/// Connects `n` clients.
pub async fn clients(backend: &Backend, n: usize) -> Vec<Client> {
    join_all((0..n).map(|_| backend.client())).await
}

/// Lets clients wait once where `x` is: in a cluster they listen to a shard from their first wait
/// on.
pub async fn listening(backend: &Backend, clients: &[Client]) {
    if let Backend::Shared(_) = backend {
        for client in clients {
            let lock = client.lock("{x}listens");
            let guard = lock.lock().await.unwrap();
            let waiter = waiting(lock);
            registered(client, "{x}listens", 1).await;
            guard.release().await.unwrap();
            waiter.await.unwrap().release().await.unwrap();
        }
    }
}

impl<'a> Given<'a, Backend> for FairLock {
    async fn given(ground: &mut Ground<'a, Backend>) -> Self {
        let client = Client::given(ground).await;
        listening(ground.servers, from_ref(&client)).await;
        client.fair_lock("x")
    }
}

/// A backend with the lock `x` of so many clients. Only counters are left in the end.
pub(crate) struct Fair<'a, const N: usize>(&'a Backend, [FairLock; N]);

impl<const N: usize> Deref for Fair<'_, N> {
    type Target = Backend;

    fn deref(&self) -> &Backend {
        self.0
    }
}

impl<const N: usize> Index<usize> for Fair<'_, N> {
    type Output = FairLock;

    fn index(&self, client: usize) -> &FairLock {
        &self.1[client]
    }
}

impl<'a, const N: usize> Given<'a, Backend> for Fair<'a, N> {
    async fn given(ground: &mut Ground<'a, Backend>) -> Self {
        Self(ground.servers, <[FairLock; N]>::given(ground).await)
    }

    async fn left(ground: &Ground<'a, Backend>) {
        ground.servers.assert_only_counters_left();
    }
}
