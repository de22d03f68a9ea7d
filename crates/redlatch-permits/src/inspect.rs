//! Given-out permits, as an observer sees them.

use std::{collections::BTreeMap, time::Duration};

use redlatch_core::{Error, Metadata, family::Internals};
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
}

pub(crate) async fn holders(pool: &Pool) -> Result<Vec<PermitHolder>, Error> {
    let mut clients = BTreeMap::new();
    let mut holders = Vec::new();
    for hold in pool.holds().await? {
        // Another version may name its holds differently.
        let Ok(id) = hold.id.parse() else { continue };
        let client = hold.id.split(':').next().unwrap_or_default().to_owned();
        if !clients.contains_key(&client) {
            let metadata = pool.client().metadata(&hold.id).await?;
            clients.insert(client.clone(), metadata);
        }
        holders.push(PermitHolder {
            id,
            remaining: hold.remaining,
            metadata: clients[&client].clone(),
        });
    }
    Ok(holders)
}
