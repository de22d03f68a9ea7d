//! The holders of a semaphore, as an observer sees them.

use std::time::Duration;

use redlatch_core::{Error, Metadata};
use redlatch_pool::Pool;

/// The permits of one acquisition, and the description of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitHolder {
    /// The acquisition, `<client>:<n>`.
    pub id: String,
    /// The number of its permits.
    pub permits: u32,
    /// The remaining lease.
    pub remaining: Duration,
    /// Host, process and application. `None` if the client's record is gone.
    pub metadata: Option<Metadata>,
    /// Why it holds, if it has said so with `note`.
    pub note: Option<String>,
}

pub(crate) async fn holders(pool: &Pool) -> Result<Vec<PermitHolder>, Error> {
    let holders = pool.holders(|hold| Some(hold.id.clone())).await?;
    let holders = holders.into_iter().map(|(id, hold, of)| PermitHolder {
        id,
        permits: hold.permits,
        remaining: hold.remaining,
        metadata: of.metadata,
        note: of.note,
    });
    Ok(holders.collect())
}
