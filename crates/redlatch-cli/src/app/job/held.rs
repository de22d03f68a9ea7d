//! What a process holds, as its guardian has to know it to give it back.

use std::time::Duration;

use redlatch::{Client, ObjectHolder, Token};
use serde::{Deserialize, Serialize};

use super::Job;
use crate::app::{
    args::ServerArgs,
    exit::Failure,
    session,
    verbs::{How, end},
};

/// The names that a client holds, each with its token, and where its server is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Held {
    server: ServerArgs,
    client: String,
    names: Vec<(String, Option<u64>)>,
}

impl Held {
    pub(super) fn of(job: &Job<'_>) -> Self {
        let name = |(name, token): &(String, Option<Token>)| {
            (name.clone(), token.map(|token| token.as_u64()))
        };
        Self {
            server: job.server.clone(),
            client: job.client.id().to_string(),
            names: job.holds.iter().map(name).collect(),
        }
    }

    /// Returns one line; an empty one if it is too long for a pipe. The lease then ends the hold.
    pub(super) fn line(&self) -> String {
        // These values have no maps with odd keys, so they can be written.
        let line = serde_json::to_string(self).unwrap_or_default();
        if line.len() > LONGEST {
            return String::new();
        }
        line
    }

    /// Gives the names back. Whoever holds them is dead.
    pub(super) async fn give_back(self) -> Result<(), Failure> {
        if self.names.is_empty() {
            return Ok(());
        }
        let client = session::looker(&self.server, "redlatch guardian")?;
        let client = client.patience(PATIENCE).connect().await?;
        for (name, token) in &self.names {
            // The others are given back even if this one cannot be.
            let _ = self.give_one(&client, name, *token).await;
        }
        session::close(&client).await;
        Ok(())
    }

    async fn give_one(
        &self,
        client: &Client,
        name: &str,
        token: Option<u64>,
    ) -> Result<(), Failure> {
        let Some(object) = client.object(name).await? else {
            return Ok(());
        };
        let is_ours = |holder: &&ObjectHolder| {
            holder.owner.split(':').next() == Some(&self.client)
                && holder.token.map(|token| token.as_u64()) == token
        };
        for holder in object.holders.iter().filter(is_ours) {
            end(client, &object, holder, How::Now).await?;
        }
        Ok(())
    }
}

/// A pipe has 64 KiB at the usual, and deadlines have to fit as well.
const LONGEST: usize = 32 * 1024;

/// How long the guardian insists on an answer.
const PATIENCE: Duration = Duration::from_secs(5);
