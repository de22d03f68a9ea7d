//! The holders of a semaphore, as an observer sees them.

use std::{collections::BTreeMap, time::Duration};

use redlatch_core::{Error, Metadata, family::Internals};
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
}

pub(crate) async fn holders(pool: &Pool) -> Result<Vec<PermitHolder>, Error> {
    let mut clients = BTreeMap::new();
    let mut holders = Vec::new();
    for hold in pool.holds().await? {
        let client = hold.id.split(':').next().unwrap_or_default().to_owned();
        if !clients.contains_key(&client) {
            let metadata = pool.client().metadata(&hold.id).await?;
            clients.insert(client.clone(), metadata);
        }
        holders.push(PermitHolder {
            id: hold.id,
            permits: hold.permits,
            remaining: hold.remaining,
            metadata: clients[&client].clone(),
        });
    }
    Ok(holders)
}
