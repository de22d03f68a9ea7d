//! The builder that sets a count.

use std::time::Duration;

use redlatch_core::{
    Error, ErrorKind, awaited,
    family::{Handle, Lease},
};

use crate::scripts;

/// Sets the count of a latch. Await the builder. See
/// [`CountDownLatch::try_set_count`](crate::CountDownLatch::try_set_count).
#[derive(Clone, Debug)]
#[must_use = "nothing is set until this is awaited"]
pub struct TrySetCount {
    latch: Handle,
    count: u32,
    ttl: Option<Duration>,
}

impl TrySetCount {
    pub(crate) fn new(latch: &Handle, count: u32) -> Self {
        Self {
            latch: latch.clone(),
            count,
            ttl: None,
        }
    }

    /// Lets the latch expire after `ttl`, open or not: 1 s to 365 days, else `InvalidOption`.
    /// Default: the latch stays until it is deleted.
    ///
    /// The time counts from the setting. A count-down does not change the end of the latch. A new
    /// setting replaces the TTL. Waiters get `Deleted` when the latch expires.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let imported = client.count_down_latch("import:2026-11-28");
    /// imported.try_set_count(3).ttl(Duration::from_secs(24 * 3600)).await?;
    /// tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
    /// assert!(imported.info().await?.is_none(), "you need not delete the latch");
    /// # Ok(())
    /// # }
    /// ```
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    async fn run(self) -> Result<bool, Error> {
        if let Some(ttl) = self.ttl
            && (ttl < MIN_TTL || ttl > Lease::MAX)
        {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "the ttl of a latch is out of bounds; it is 1 s to 365 days",
            ));
        }
        let key = self.latch.key()?;
        let call = |op: &_| scripts::set(key, op, self.count, self.ttl);
        self.latch.change(call, scripts::was_set).await
    }
}

awaited! {
    /// True if this call set the count.
    TrySetCount => bool;
}

/// Shortest TTL of a latch.
const MIN_TTL: Duration = Duration::from_secs(1);
