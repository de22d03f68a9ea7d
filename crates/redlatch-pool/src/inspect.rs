//! The state of a pool, as an observer sees it.

use std::time::Duration;

use redlatch_core::{
    Error, Metadata,
    family::{Internals, Records},
};

use crate::Pool;

/// The numbers of permits, as the server knows them. The result may be outdated on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// The number of permits.
    pub permits: u32,
    /// The number available. Zero while more permits are out than the total.
    pub available: u32,
    /// The number given out. Larger than the total after the total was lowered.
    pub acquired: u32,
    /// Waiters in the queue, of all clients. Dead ones are counted for a while.
    pub waiters: u64,
    /// The remaining TTL; `None` if it has none.
    pub remaining: Option<Duration>,
}

/// Permits that were given out together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name, `<client>:<n>`, perhaps with a suffix.
    pub id: String,
    /// The number of permits.
    pub permits: u32,
    /// The remaining lease.
    pub remaining: Duration,
}

/// The description that a client has given of itself and of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Host, process and application. `None` if the client's record is gone.
    pub metadata: Option<Metadata>,
    /// Why it holds. `None` if it has not said so.
    pub note: Option<String>,
}

impl Pool {
    /// Lists the holds for which `id` returns something, with the descriptions of their clients.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn holders<I>(
        &self,
        id: impl Fn(&Hold) -> Option<I>,
    ) -> Result<Vec<(I, Hold, Described)>, Error> {
        let records = Records::new(self.client());
        let mut holders = Vec::new();
        for hold in self.holds().await? {
            let Some(id) = id(&hold) else { continue };
            let metadata = records.of(&hold.id).await?;
            let of = metadata.as_ref();
            let name = self.name().unwrap_or_default();
            let note = self.client().note(of, &hold.id, name, None).await?;
            holders.push((id, hold, Described { metadata, note }));
        }
        Ok(holders)
    }
}
