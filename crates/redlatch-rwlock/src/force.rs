//! Forced ends of holds.

use futures_util::{StreamExt, TryStreamExt, stream};
use redlatch_core::{
    Error, awaited,
    family::{Force, Internals},
};

use crate::{ReadWriteHolder, ReadWriteLock, inspect, scripts};

/// A forced release. Await the builder. See [`ReadWriteLock::force_release`].
///
/// Returns the number of ended holds. Costs one command per hold, and those of
/// [`ReadWriteLock::holders`] unless you name one holder.
///
/// # Errors
///
/// Those of [every call](Error#errors-of-every-call).
///
/// # Cancel safety
///
/// After a drop, each hold may have been ended or not.
#[derive(Clone, Debug)]
#[must_use = "nothing is released until this is awaited"]
pub struct ForceEnd {
    pub(crate) lock: ReadWriteLock,
    pub(crate) holder: Option<ReadWriteHolder>,
    pub(crate) how: Force,
}

impl ForceEnd {
    /// Ends only this hold, and no later one of its owner. Default: all holds that the call finds.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let prices = client.read_write_lock("prices");
    /// let report = prices.read().note("report").await?; // hangs
    /// let export = prices.read().note("export").await?;
    /// let holders = prices.holders().await?;
    /// let hangs = holders.iter().find(|holder| holder.note.as_deref() == Some("report"));
    /// prices.force_release().holder(hangs.expect("the report reads")).await?;
    /// assert!(report.check().is_err() && export.check().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn holder(mut self, holder: &ReadWriteHolder) -> Self {
        self.holder = Some(holder.clone());
        self
    }

    /// Forbids renewal instead: each hold ends with its lease, and exclusion is kept.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let prices = client.read_write_lock("prices");
    /// let reader = prices.read().await?; // hangs
    /// prices.force_release().after_lease().await?;
    /// assert!(prices.try_write().await?.is_none(), "the reader still holds the lock");
    /// tokio::time::sleep(Duration::from_secs(31)).await; // longer than the lease
    /// assert!(prices.try_write().await?.is_some());
    /// # drop(reader);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn after_lease(mut self) -> Self {
        self.how = Force::AfterLease;
        self
    }

    async fn run(self) -> Result<usize, Error> {
        let (lock, ending) = (self.lock.0.clone(), self.end_all());
        lock.about(lock.client().within_patience(true, ending).await)
    }

    async fn end_all(self) -> Result<usize, Error> {
        let holders = match &self.holder {
            Some(holder) => vec![holder.clone()],
            None => inspect::list(&self.lock.0).await?,
        };
        let one = |holder: ReadWriteHolder| {
            let this = self.clone();
            async move { this.end(&holder).await }
        };
        let ended = stream::iter(holders).map(one).buffer_unordered(AT_ONCE);
        ended
            .try_fold(0, async |sum, ended| Ok(sum + usize::from(ended)))
            .await
    }

    async fn end(&self, holder: &ReadWriteHolder) -> Result<bool, Error> {
        let (lock, client) = (&self.lock.0, self.lock.client());
        let key = lock.key()?;
        let call = scripts::force(key, holder, self.how, client);
        let ended = lock.ask(call, scripts::forced).await?;
        if ended && self.how == Force::Now {
            client.revoked_hold(key, holder.access.side(), holder.serial);
        }
        Ok(ended)
    }
}

awaited! {
    /// The number of holds that were ended.
    ForceEnd => usize;
}

/// Number of holds that are ended at the same time.
const AT_ONCE: usize = 64;
