//! The read-write lock.

pub mod behaviour;
pub mod crowd;
pub mod fairness;
pub mod upgrade;

use std::sync::atomic::Ordering::Relaxed;

use redlatch::{ReadGuard, ReadWriteInfo, ReadWriteLock as Rw, WriteGuard};

use crate::{given::Ground, prelude::*};

/// Waits until the server knows of so many waiters.
pub async fn waiting(client: &Client, name: &str, writers: u64, readers: u64) {
    waits(&client.read_write_lock(name), writers, readers).await;
}

/// Waits until the server knows of so many waiters.
async fn waits(lock: &Rw, writers: u64, readers: u64) {
    wait_for("waiters to be known", async || {
        let info = lock.info().await.unwrap();
        (info.waiting_writers, info.waiting_readers) == (writers, readers)
    })
    .await;
}

/// Checks that nobody holds, and that neither the client nor the server has anything left of it but
/// what is remembered for a while.
pub async fn assert_quiet(backend: &Backend, client: &Client, name: &str) {
    assert_tables_empty(client).await;
    assert_eq!(client.read_write_lock(name).holders().await.unwrap(), []);
    backend.assert_only_counters_left();
}

/// Checks that nobody holds `x` any more.
pub(crate) async fn quiet(ground: &Ground<'_, Backend>) {
    if let Some(client) = ground.clients.first() {
        assert_quiet(ground.servers, client, "x").await;
    }
}

/// Tasks that take a side in a loop until they are stopped.
#[derive(Clone, Debug, Default)]
pub struct Rivals {
    grants: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Rivals {
    /// Starts eight tasks.
    pub fn start<G>(&self, lock: &Rw, take: fn(Rw) -> JoinHandle<G>) -> Vec<JoinHandle<()>>
    where
        G: Into<Box<dyn AnyGuard>> + Send + 'static,
    {
        spawned(8, |_| {
            let (lock, rivals) = (lock.clone(), self.clone());
            async move {
                while rivals.go_on() {
                    let guard: Box<dyn AnyGuard> = take(lock.clone()).await.unwrap().into();
                    rivals.granted().await;
                    guard.release().await.unwrap();
                }
            }
        })
    }

    /// Tells whether another round is due.
    pub fn go_on(&self) -> bool {
        !self.over.load(Relaxed)
    }

    /// Notes a grant, and waits for a moment.
    pub async fn granted(&self) {
        self.grants.fetch_add(1, Relaxed);
        sleep(MS).await;
    }

    /// Takes the other side 20 times, and stops the rivals. Returns how many of their grants came
    /// first at most, from when the server knew of the wait.
    pub async fn most_before<G: Into<Box<dyn AnyGuard>>>(
        &self,
        lock: &Rw,
        take: fn(Rw) -> JoinHandle<G>,
        waiting: fn(ReadWriteInfo) -> u64,
    ) -> u64 {
        let mut most = 0;
        for _ in 0..20 {
            let taking = take(lock.clone());
            while !taking.is_finished() && waiting(lock.info().await.unwrap()) == 0 {}
            let before = self.grants.load(Relaxed);
            let guard = taking.await.unwrap();
            most = most.max(self.grants.load(Relaxed) - before);
            sleep(MS).await;
            guard.into().release().await.unwrap();
        }
        self.over.store(true, Relaxed);
        most
    }
}

/// Starts to read in a task of its own.
pub fn reads(lock: Rw) -> JoinHandle<ReadGuard> {
    tokio::spawn(async move { lock.read().await.unwrap() })
}

/// Starts to write in a task of its own.
pub fn writes(lock: Rw) -> JoinHandle<WriteGuard> {
    tokio::spawn(async move { lock.write().await.unwrap() })
}
