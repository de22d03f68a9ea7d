//! Whether a client has its servers: as it knows by itself, and as a round trip shows.

use std::time::Duration;

use crate::{Client, Error, net::Health, runtime::Command};

impl Client {
    /// Returns what the client knows about its connections. Sends no request.
    ///
    /// A silent server counts as connected until a request or the health check, every 5 s, finds
    /// it silent. [`ping`](Self::ping) asks.
    pub fn health(&self) -> Health {
        self.net().router.health()
    }

    /// Asks the server for its time, and returns the time of the round trip. In a cluster, asks one
    /// node that answers. Costs one command, and no right that locks do not need.
    ///
    /// # Errors
    ///
    /// `Unavailable` without a connection or an answer within the client's
    /// [`patience`](crate::ClientBuilder::patience). `Auth`, `Permission`, `Closed`, `Forked`.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn ping(&self) -> Result<Duration, Error> {
        self.check_open()?;
        let deadline = self.now() + self.patience();
        let router = &self.net().router;
        router.known(deadline).await?;
        let session = router.any_session(deadline).await?;
        let sent = self.now();
        session.ask(Command::new("TIME"), deadline).await?;
        Ok(self.now() - sent)
    }
}
