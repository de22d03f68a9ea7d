//! The records of the clients that hold or wait.

use std::collections::HashMap;

use super::Internals;
use crate::{
    Client, Error, Metadata,
    base::sync::{Mutex, lock},
};

/// The records that have been read lately, by client. Bounded, and read once each.
#[derive(Debug)]
pub struct Records {
    client: Client,
    known: Mutex<HashMap<String, Option<Metadata>>>,
}

impl Records {
    /// Creates an empty table.
    pub fn new(client: &Client) -> Self {
        let client = client.clone();
        let known = Mutex::default();
        Self { client, known }
    }

    /// Returns the record of the client of `owner`, if there is one. Costs a command for a client
    /// that is not known yet.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn of(&self, owner: &str) -> Result<Option<Metadata>, Error> {
        let id = owner.split(':').next().unwrap_or_default();
        if let Some(record) = lock(&self.known).get(id) {
            return Ok(record.clone());
        }
        let record = Internals::metadata(&self.client, owner).await?;
        let mut known = lock(&self.known);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(id.to_owned(), record.clone());
        Ok(record)
    }
}

/// The most records that are kept.
const MOST: usize = 1024;
