//! W6, in the process that holds: many holds of one client, and what they cost it.
//!
//! Three requests, each with one line as its answer: `hold <n> <key>` takes n names, `watch <ms>`
//! watches them for so long, `part` gives them back.

use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use redlatch::{Client, HoldState, LockGuard};
use tokio::time::sleep;

use crate::{
    clock,
    contender::{Failure, connect_redlatch},
};

/// What this process holds.
#[derive(Default)]
pub(crate) struct Holder {
    held: Option<(Client, Vec<LockGuard>)>,
}

/// What watching has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watched {
    /// CPU time of the process in ns.
    pub(crate) cpu: u64,
    /// For how long, in ns.
    pub(crate) wall: u64,
    /// The least that any hold ever had left, in ms.
    pub(crate) least: u64,
    pub(crate) lost: usize,
}

impl Holder {
    /// Answers one request; none if it is no request of these.
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
        // What the first ones need is not theirs alone.
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
            // This process is what is measured: looks shall cost little of it. A hold that is lost
            // before its deadline is counted below.
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

    /// Reads the answer to `watch`.
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

/// Between looks at all holds.
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
