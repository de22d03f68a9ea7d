//! The state of a client's connections, without a request and by a round trip.

use std::time::Duration;

use crate::{Client, Error, net::Health, runtime::Command};

impl Client {
    /// Returns what the client knows about its connections. Sends no request.
    ///
    /// A silent server counts as connected until a request or the health check, every 5 s, finds it
    /// silent. [`ping`](Self::ping) sends a request.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(client: redlatch::Client) {
    /// // For a readiness probe that is called often.
    /// let status = if client.health().is_connected() { 200 } else { 503 };
    /// # }
    /// ```
    pub fn health(&self) -> Health {
        self.net().router.health()
    }

    /// Asks the server for its time, and returns the time of the round trip. In a cluster, asks one
    /// node that answers. Costs one command, and no right that locks do not need.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// println!("the server answers within {:?}", client.ping().await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call).
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn ping(&self) -> Result<Duration, Error> {
        self.check_open()?;
        self.net().check_all_away()?;
        let deadline = self.now() + self.patience();
        let router = &self.net().router;
        router.known(deadline).await?;
        let session = router.any_session(deadline).await?;
        let sent = self.now();
        session.ask(Command::new("TIME"), deadline).await?;
        Ok(self.now() - sent)
    }
}
