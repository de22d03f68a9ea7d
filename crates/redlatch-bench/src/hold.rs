//! W6 and W12, in the measured process: many holds, waiters or clients, and their cost.

use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use redlatch::{Client, FairLockGuard, HoldState, LockGuard};
use serde::{Deserialize, Serialize};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    clock,
    contender::{Failure, connect_redlatch},
};

/// The holds, waiters and clients of this process.
#[derive(Default)]
pub(crate) struct Holder {
    held: Vec<LockGuard>,
    waiting: JoinSet<Result<FairLockGuard, redlatch::Error>>,
    blockers: Vec<FairLockGuard>,
    clients: Vec<Client>,
}

/// The result of watching.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// The CPU time of the process.
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
    /// The shortest remaining time of any hold so far.
    pub(crate) least: Duration,
    pub(crate) lost: usize,
}

impl Holder {
    pub(crate) async fn part(&mut self) {
        self.waiting.shutdown().await;
        self.blockers.clear();
        self.held.clear();
        for client in self.clients.drain(..) {
            client.close(Duration::from_secs(30)).await;
        }
    }

    /// Returns the bytes by which the memory of the process has grown.
    pub(crate) async fn hold(&mut self, url: &str, n: usize, lease: Duration, key: &str) -> Grown {
        let client = connect_redlatch(url).await?;
        // The first locks allocate memory that later ones share, so it is not measured.
        for i in 0..64 {
            let first = client.lock(format!("{key}:first:{i}"));
            first.lock().await?.release().await?;
        }
        let before = clock::own_memory();
        self.held = Vec::with_capacity(n);
        let mut taken = iter(0..n)
            .map(|i| client.lock(format!("{key}:{i}")))
            .map(|lock| lock.lock().renewed_lease(lease).into_future())
            .buffer_unordered(64);
        while let Some(guard) = taken.next().await {
            self.held.push(guard?);
        }
        drop(taken);
        let bytes = clock::own_memory().saturating_sub(before);
        self.clients.push(client);
        Ok(bytes)
    }

    /// Lets `n` tasks wait for `names` fair locks, each with the same number of waiters. Each
    /// waiter has an entry of its own in the server's queue.
    pub(crate) async fn queue(&mut self, url: &str, n: usize, names: usize, key: &str) -> Grown {
        let client = connect_redlatch(url).await?;
        let lock = |i: usize| client.fair_lock(format!("{key}:{}", i % names));
        for i in 0..names {
            self.blockers.push(lock(i).lock().await?);
        }
        let before = clock::own_memory();
        for i in 0..n {
            self.waiting.spawn(lock(i).lock().into_future());
        }
        let mut asked = 0;
        while asked < n as u64 {
            sleep(LOOK).await;
            let mut entries = 0;
            for i in 0..names {
                entries += lock(i).info().await?.map_or(0, |info| info.waiters);
            }
            asked = entries;
        }
        let bytes = clock::own_memory().saturating_sub(before);
        self.clients.push(client);
        Ok(bytes)
    }

    pub(crate) async fn connect(&mut self, url: &str, n: usize) -> Grown {
        let before = clock::own_memory();
        for _ in 0..n {
            self.clients.push(connect_redlatch(url).await?);
        }
        Ok(clock::own_memory().saturating_sub(before))
    }

    pub(crate) async fn watch(&self, time: Duration) -> Watched {
        let (cpu, began) = (clock::own_cpu(), Instant::now());
        let mut least = Duration::MAX;
        while began.elapsed() < time {
            sleep(LOOK).await;
            // This process is measured, so the checks must be cheap. A hold that is lost before its
            // deadline is counted below.
            let first = self.held.iter().map(|guard| guard.valid_until()).min();
            if let (Some(first), Some(client)) = (first, self.clients.first()) {
                least = least.min(first - client.now());
            }
        }
        let lost = |guard: &&LockGuard| matches!(guard.state(), HoldState::Lost(_));
        Watched {
            cpu: clock::own_cpu() - cpu,
            wall: began.elapsed(),
            least,
            lost: self.held.iter().filter(lost).count(),
        }
    }
}

type Grown = Result<u64, Failure>;

/// The interval between two checks of all holds.
const LOOK: Duration = Duration::from_millis(500);
