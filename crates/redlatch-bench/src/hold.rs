//! W6 and W12, in the measured process: many holds, waiters or clients, and their cost.
//!
//! There are five requests, each with one line as its reply: `hold <n> <ms> <key>` acquires n names
//! with a renewed lease,
//! `queue <n> <m> <key>` lets n tasks wait for m fair locks that it holds, `connect <n>` connects n
//! clients that do nothing, `watch <ms>` watches what there is for this time, and `part` ends it.

use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use redlatch::{Client, FairLockGuard, HoldState, LockGuard};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    clock,
    contender::{Failure, connect_redlatch},
};

/// The holds, waiters and clients of this process.
#[derive(Default)]
pub(crate) struct Holder {
    held: Option<(Client, Vec<LockGuard>)>,
    waiting: JoinSet<Result<FairLockGuard, redlatch::Error>>,
    blockers: Vec<FairLockGuard>,
    clients: Vec<Client>,
}

/// The result of watching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watched {
    /// The CPU time of the process in ns.
    pub(crate) cpu: u64,
    /// The duration in ns.
    pub(crate) wall: u64,
    /// The shortest remaining time of any hold so far, in ms.
    pub(crate) least: u64,
    pub(crate) lost: usize,
}

impl Holder {
    /// Answers one request; `None` if it is none of the five.
    pub(crate) async fn answer(
        &mut self,
        url: &str,
        line: &str,
    ) -> Option<Result<String, Failure>> {
        let words: Vec<_> = line.split(' ').collect();
        match *words.as_slice() {
            ["hold", n, ms, key] => {
                let lease = Duration::from_millis(ms.parse().ok()?);
                let n = n.parse().ok()?;
                Some(self.hold(url, n, lease, key).await)
            }
            ["queue", n, names, key] => {
                let (n, names) = (n.parse().ok()?, names.parse().ok()?);
                Some(self.queue(url, n, names, key).await)
            }
            ["connect", n] => {
                let n = n.parse().ok()?;
                Some(self.connect(url, n).await)
            }
            ["watch", ms] => {
                let time = Duration::from_millis(ms.parse().ok()?);
                Some(self.watch(time).await)
            }
            ["part"] => {
                self.waiting.shutdown().await;
                self.blockers.clear();
                for client in self.clients.drain(..) {
                    client.close(Duration::from_secs(30)).await;
                }
                if let Some((client, guards)) = self.held.take() {
                    drop(guards);
                    client.close(Duration::from_secs(30)).await;
                }
                Some(Ok("parted\n".to_owned()))
            }
            _ => None,
        }
    }

    async fn hold(
        &mut self,
        url: &str,
        n: usize,
        lease: Duration,
        key: &str,
    ) -> Result<String, Failure> {
        let client = connect_redlatch(url).await?;
        // The first locks allocate memory that later ones share, so it is not measured.
        for i in 0..64 {
            client
                .lock(format!("{key}:first:{i}"))
                .lock()
                .await?
                .release()
                .await?;
        }
        let before = clock::own_memory();
        let mut guards = Vec::with_capacity(n);
        let mut taken = iter(0..n)
            .map(|i| client.lock(format!("{key}:{i}")))
            .map(|lock| lock.lock().renewed_lease(lease).into_future())
            .buffer_unordered(64);
        while let Some(guard) = taken.next().await {
            guards.push(guard?);
        }
        drop(taken);
        let bytes = clock::own_memory().saturating_sub(before);
        self.held = Some((client, guards));
        Ok(format!("held {bytes}\n"))
    }

    /// Lets `n` tasks wait for `names` fair locks, each with the same number of waiters. Each
    /// waiter has an entry of its own in the server's queue.
    async fn queue(
        &mut self,
        url: &str,
        n: usize,
        names: usize,
        key: &str,
    ) -> Result<String, Failure> {
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
        Ok(format!("held {bytes}\n"))
    }

    async fn connect(&mut self, url: &str, n: usize) -> Result<String, Failure> {
        let before = clock::own_memory();
        for _ in 0..n {
            self.clients.push(connect_redlatch(url).await?);
        }
        let bytes = clock::own_memory().saturating_sub(before);
        Ok(format!("held {bytes}\n"))
    }

    async fn watch(&self, time: Duration) -> Result<String, Failure> {
        let guards = self.held.as_ref().map_or(&[][..], |(_, guards)| guards);
        let (cpu, began) = (clock::own_cpu(), clock::monotonic());
        let mut least = Duration::MAX;
        let end = began + u64::try_from(time.as_nanos())?;
        while clock::monotonic() < end {
            sleep(LOOK).await;
            // This process is measured, so the checks must be cheap. A hold that is lost before its
            // deadline is counted below.
            let first = guards.iter().map(|guard| guard.valid_until()).min();
            if let (Some(first), Some((client, _))) = (first, &self.held) {
                least = least.min(first - client.now());
            }
        }
        let lost = |guard: &&LockGuard| matches!(guard.state(), HoldState::Lost(_));
        let watched = Watched {
            cpu: u64::try_from((clock::own_cpu() - cpu).as_nanos())?,
            wall: clock::monotonic() - began,
            least: u64::try_from(least.as_millis()).unwrap_or(u64::MAX),
            lost: guards.iter().filter(lost).count(),
        };
        Ok(watched.line())
    }
}

impl Watched {
    fn line(self) -> String {
        let Self {
            cpu,
            wall,
            least,
            lost,
        } = self;
        format!("watched {cpu} {wall} {least} {lost}\n")
    }

    /// Reads the reply to `watch`.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let mut words = line.trim_end().strip_prefix("watched ")?.split(' ');
        Some(Self {
            cpu: words.next()?.parse().ok()?,
            wall: words.next()?.parse().ok()?,
            least: words.next()?.parse().ok()?,
            lost: words.next()?.parse().ok()?,
        })
    }
}

/// The interval between two checks of all holds.
const LOOK: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_read_as_written() {
        let watched = Watched {
            cpu: 1,
            wall: 2,
            least: 3,
            lost: 4,
        };
        assert_eq!(Watched::read(&watched.line()), Some(watched));
        assert_eq!(Watched::read("held 5"), None);
    }
}
