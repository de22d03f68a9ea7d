//! The state of the connections of a client, as the client knows it.

use super::{Net, Router};
use crate::{Error, ErrorKind, protocol::time::Moment};

/// The state of a client's connections, as the client knows it without a request. See
/// [`Client::health`](crate::Client::health).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The state of the connections for commands.
    pub connection: Connection,
    /// The time of the last answer of any server, by [`Client::now`](crate::Client::now). `None` before the first.
    pub last_answer: Option<Moment>,
}

/// The state of a client's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// No request was sent yet, so a lazy client has not connected. The first call connects, such
    /// as [`ping`](crate::Client::ping). Let a readiness probe call `ping`, or count `Idle` as
    /// ready.
    Idle,
    /// All servers in use are connected.
    Connected,
    /// A server in use is not connected, and the client tries again and again.
    Reconnecting {
        /// Since when, by [`Client::now`](crate::Client::now). Of several servers, the first.
        since: Moment,
    },
}

impl Health {
    /// Tells whether all servers in use are connected.
    ///
    /// ```
    /// # use redlatch_core as redlatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// use redlatch::{Client, Connection};
    ///
    /// let client = Client::builder("redis://localhost").connect_lazy()?;
    /// let health = client.health();
    /// assert!(!health.is_connected());
    /// assert_eq!(health.connection, Connection::Idle); // connects with the first call
    /// # Ok(())
    /// # }
    /// ```
    pub const fn is_connected(&self) -> bool {
        matches!(self.connection, Connection::Connected)
    }
}

impl Router {
    /// Returns what is known about the connections for commands.
    pub(crate) fn health(&self) -> Health {
        let Some(wanted) = self.wanted.look(|&first| first) else {
            return Health {
                connection: Connection::Idle,
                last_answer: None,
            };
        };
        let routes = self.routes();
        let links = routes.nodes().flat_map(|node| node.needed_links());
        let links: Vec<_> = links.collect();
        let down = links.iter().filter_map(|link| link.down_since()).min();
        let since = if links.is_empty() { Some(wanted) } else { down };
        Health {
            connection: match since {
                Some(since) => Connection::Reconnecting { since },
                None => Connection::Connected,
            },
            last_answer: links.iter().filter_map(|link| link.last_answer()).max(),
        }
    }

    /// Returns since when the node of `slot` is away, and why. Returns `None` while a connection is
    /// up, and before the first use.
    fn away(&self, slot: u16) -> Option<(Moment, Error)> {
        let link = {
            let routes = self.routes();
            match routes.node(slot) {
                Some(node) => node
                    .needed_links()
                    .min_by_key(|link| link.down_since())?
                    .clone(),
                None if routes.nodes().next().is_some() => return None,
                None => return self.wanted.look(|&first| first).zip(routes.trouble.clone()),
            }
        };
        link.away()
    }
}

impl Net {
    /// Fails if the node of `slot` has been away for as long as the client's `fail_fast`. For calls
    /// that keep no hold and give nothing back.
    pub(crate) fn check_away(&self, slot: u16) -> Result<(), Error> {
        let Some(after) = self.fail_fast else {
            return Ok(());
        };
        let Some((since, why)) = self.router.away(slot) else {
            return Ok(());
        };
        let span = self.world.now() - since;
        // Any other error ends the call with the next step anyway.
        if span < after || why.kind() != ErrorKind::Unavailable {
            return Ok(());
        }
        let message = format!(
            "no connection for {span:.1?}, and fail_fast refuses calls after {after:?}: {why}"
        );
        Err(Error::with_reason(ErrorKind::Unavailable, message, why))
    }

    /// As [`check_away`](Self::check_away), for a call that any node can answer.
    pub(crate) fn check_all_away(&self) -> Result<(), Error> {
        let slots = self.router.one_slot_per_node();
        let checks = slots.iter().map(|&slot| self.check_away(slot));
        checks
            .reduce(Result::or)
            .unwrap_or_else(|| self.check_away(0))
    }
}
