//! W6, in the holding process: many holds of one client, and their cost.
//!
//! There are three requests, each with one line as its reply: `hold <n> <key>` acquires n names,
//! `watch <ms>` watches them for this time, and `part` releases them.

use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use redlatch::{Client, HoldState, LockGuard};
use tokio::time::sleep;

use crate::{
    clock,
    contender::{Failure, connect_redlatch},
};

/// The holds of this process.
#[derive(Default)]
pub(crate) struct Holder {
    held: Option<(Client, Vec<LockGuard>)>,
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
    /// Answers one request; `None` if it is none of the three.
    pub(crate) async fn answer(
        &mut self,
        url: &str,
        line: &str,
    ) -> Option<Result<String, Failure>> {
        let words: Vec<_> = line.split(' ').collect();
        match *words.as_slice() {
            ["hold", n, key] => {
                let n = n.parse().ok()?;
                Some(self.hold(url, n, key).await)
            }
            ["watch", ms] => {
                let time = Duration::from_millis(ms.parse().ok()?);
                Some(self.watch(time).await)
            }
            ["part"] => {
                if let Some((client, guards)) = self.held.take() {
                    drop(guards);
                    client.close(Duration::from_secs(30)).await;
                }
                Some(Ok("parted\n".to_owned()))
            }
            _ => None,
        }
    }

    async fn hold(&mut self, url: &str, n: usize, key: &str) -> Result<String, Failure> {
        let client = connect_redlatch(url).await?;
        // The first locks allocate memory that later ones share, so it is not measured.
        for i in 0..64 {
            client
                .lock(&format!("{key}:first:{i}"))
                .lock()
                .await?
                .release()
                .await?;
        }
        let before = clock::own_memory();
        let mut guards = Vec::with_capacity(n);
        let mut taken = iter(0..n)
            .map(|i| client.lock(&format!("{key}:{i}")).lock().into_future())
            .buffer_unordered(64);
        while let Some(guard) = taken.next().await {
            guards.push(guard?);
        }
        drop(taken);
        let bytes = clock::own_memory().saturating_sub(before);
        self.held = Some((client, guards));
        Ok(format!("held {bytes}\n"))
    }

    async fn watch(&self, time: Duration) -> Result<String, Failure> {
        let (client, guards) = self.held.as_ref().ok_or("nothing is held")?;
        let (cpu, began) = (clock::own_cpu(), clock::monotonic());
        let mut least = Duration::MAX;
        let end = began + u64::try_from(time.as_nanos())?;
        while clock::monotonic() < end {
            sleep(LOOK).await;
            // This process is measured, so the checks must be cheap. A hold that is lost before its
            // deadline is counted below.
            let first = guards.iter().map(|guard| guard.valid_until()).min();
            let remaining = first.map(|first| first - client.now());
            least = least.min(remaining.unwrap_or_default());
        }
        let lost = |guard: &&LockGuard| matches!(guard.state(), HoldState::Lost(_));
        let watched = Watched {
            cpu: u64::try_from((clock::own_cpu() - cpu).as_nanos())?,
            wall: clock::monotonic() - began,
            least: u64::try_from(least.as_millis())?,
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
