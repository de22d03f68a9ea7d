//! Given-out permits, as an observer sees them.

use std::time::Duration;

use redlatch_core::{Error, Metadata};
use redlatch_pool::Pool;

use crate::PermitId;

/// A given-out permit, and the description of the client that took it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitHolder {
    /// Its id.
    pub id: PermitId,
    /// The remaining lease.
    pub remaining: Duration,
    /// Host, process and application of the client that took it; `None` if that client's record is
    /// gone.
    pub metadata: Option<Metadata>,
    /// Why it holds, if it has said so with `note`.
    pub note: Option<String>,
}

pub(crate) async fn holders(pool: &Pool) -> Result<Vec<PermitHolder>, Error> {
    // Another version may name its holds differently.
    let holders = pool.holders(|hold| hold.id.parse().ok()).await?;
    let holders = holders.into_iter().map(|(id, hold, of)| PermitHolder {
        id,
        remaining: hold.remaining,
        metadata: of.metadata,
        note: of.note,
    });
    Ok(holders.collect())
}
