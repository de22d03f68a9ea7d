//! The builder of a red-lock.

use std::{sync::Arc, time::Duration};

use redlatch_core::{Backoff, Error, Jitter, Lockable, Member};

use crate::{
    RedLock,
    red::{MIN_NODE_TIMEOUT, Red, wrong},
};

/// Builds a [`RedLock`].
#[derive(Clone, Debug)]
pub struct RedLockBuilder {
    nodes: Result<Vec<Member>, Error>,
    quorum: Option<usize>,
    node_timeout: Option<Duration>,
    backoff: Backoff,
    durable: bool,
    longest: Option<Duration>,
}

impl RedLockBuilder {
    pub(crate) fn new(nodes: &[&dyn Lockable]) -> Self {
        Self {
            nodes: nodes.iter().map(|node| node.member()).collect(),
            quorum: None,
            node_timeout: None,
            backoff: Backoff::exponential(Duration::from_millis(10), Duration::from_millis(500))
                .jitter(Jitter::Full),
            durable: false,
            longest: None,
        }
    }

    /// Sets the quorum: more than half of the nodes, at most all. Default: the smallest majority.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = |host| redlatch::Client::builder(host).connect_lazy();
    /// # let (one, two) = (client("redis://one.example")?, client("redis://two.example")?);
    /// # let three = client("redis://three.example")?;
    /// # let (one, two, three) = (one.lock("billing"), two.lock("billing"), three.lock("billing"));
    /// use redlatch::RedLock;
    ///
    /// let nodes = || RedLock::builder(&[&one, &two, &three]);
    /// assert!(nodes().quorum(3).build().is_ok(), "all servers have to grant the lock");
    /// assert!(nodes().quorum(1).build().is_err(), "no majority");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn quorum(mut self, quorum: usize) -> Self {
        self.quorum = Some(quorum);
        self
    }

    /// Sets the time-out of one node in one attempt, at least 1 ms. Default: a fiftieth of the
    /// lease, 50 ms to 500 ms.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = |host| redlatch::Client::builder(host).connect_lazy();
    /// # let (one, two) = (client("redis://one.example")?, client("redis://two.example")?);
    /// # let three = client("redis://three.example")?;
    /// # let (one, two, three) = (one.lock("billing"), two.lock("billing"), three.lock("billing"));
    /// use std::time::Duration;
    /// use redlatch::RedLock;
    ///
    /// // The servers are in three regions.
    /// let billing = RedLock::builder(&[&one, &two, &three])
    ///     .node_timeout(Duration::from_millis(800))
    ///     .build()?;
    /// # drop(billing);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    /// Sets the pauses between attempts. Default: 10 ms, doubled up to 500 ms, with full jitter.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = |host| redlatch::Client::builder(host).connect_lazy();
    /// # let (one, two) = (client("redis://one.example")?, client("redis://two.example")?);
    /// # let three = client("redis://three.example")?;
    /// # let (one, two, three) = (one.lock("billing"), two.lock("billing"), three.lock("billing"));
    /// use std::time::Duration;
    /// use redlatch::{Backoff, Jitter, RedLock};
    ///
    /// let (first, longest) = (Duration::from_millis(50), Duration::from_secs(2));
    /// let billing = RedLock::builder(&[&one, &two, &three])
    ///     .backoff(Backoff::exponential(first, longest).jitter(Jitter::Full))
    ///     .build()?;
    /// # drop(billing);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Declares that nodes lose nothing at a restart (an append-only file that is synced with every
    /// write), so that a restarted node counts at once. If that is false, two owners can hold the
    /// lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = |host| redlatch::Client::builder(host).connect_lazy();
    /// # let (one, two) = (client("redis://one.example")?, client("redis://two.example")?);
    /// # let three = client("redis://three.example")?;
    /// # let (one, two, three) = (one.lock("billing"), two.lock("billing"), three.lock("billing"));
    /// use redlatch::RedLock;
    ///
    /// // Each server has `appendonly yes` and `appendfsync always`.
    /// let billing = RedLock::builder(&[&one, &two, &three]).durable_nodes().build()?;
    /// # drop(billing);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn durable_nodes(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Sets the longest lease of any holder of this name, including extensions. A server that has
    /// been running for less does not count, since it may have forgotten a living hold. Default:
    /// the default lease of the first node's client, or the requested lease if that is longer.
    ///
    /// Set it where leases differ. Longer leases are refused once it is set, longer extensions in
    /// any case. It does not concern [durable](Self::durable_nodes) nodes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = |host| redlatch::Client::builder(host).connect_lazy();
    /// # let (one, two) = (client("redis://one.example")?, client("redis://two.example")?);
    /// # let three = client("redis://three.example")?;
    /// # let (one, two, three) = (one.lock("billing"), two.lock("billing"), three.lock("billing"));
    /// use std::time::Duration;
    /// use redlatch::RedLock;
    ///
    /// // The nightly run holds the lock for up to ten minutes, every other caller for 30 s.
    /// let billing = RedLock::builder(&[&one, &two, &three])
    ///     .longest_lease(Duration::from_secs(600))
    ///     .build()?;
    /// # drop(billing);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn longest_lease(mut self, lease: Duration) -> Self {
        self.longest = Some(lease);
        self
    }

    /// Builds the lock.
    ///
    /// Addresses identify nodes. One server behind two addresses is not counted twice, since it
    /// grants the name to one and reports it as held to the other; it makes a quorum harder to
    /// reach. Only clients with different prefixes would get both.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # let client = |host| redlatch::Client::builder(host).connect_lazy();
    /// # let (one, two) = (client("redis://one.example")?, client("redis://two.example")?);
    /// # let three = client("redis://three.example")?;
    /// # let (one, two, three) = (one.lock("billing"), two.lock("billing"), three.lock("billing"));
    /// use redlatch::{ErrorKind, RedLock};
    ///
    /// let wrong = RedLock::builder(&[&one, &two, &one]).build();
    /// assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidOption); // one server twice
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption` for fewer than three nodes, two nodes at one address, a quorum that is not a
    /// majority or more than all, and a time per node under 1 ms; `InvalidName`.
    pub fn build(self) -> Result<RedLock, Error> {
        self.check().map(|red| RedLock(Ok(Arc::new(red))))
    }

    pub(crate) fn check(self) -> Result<Red, Error> {
        let nodes = self.nodes?;
        if nodes.len() < 3 {
            return Err(wrong(format!(
                "a red-lock needs three independent servers or more, not {}",
                nodes.len()
            )));
        }
        for (at, node) in nodes.iter().enumerate() {
            let address = node.client().address();
            if nodes[..at]
                .iter()
                .any(|other| other.client().address() == address)
            {
                return Err(wrong(format!(
                    "two nodes of the red-lock are one server: {address}"
                )));
            }
        }
        let majority = nodes.len() / 2 + 1;
        let quorum = self.quorum.unwrap_or(majority);
        if quorum < majority || quorum > nodes.len() {
            return Err(wrong(format!(
                "a quorum of {} nodes is {majority} to {}, not {quorum}",
                nodes.len(),
                nodes.len()
            )));
        }
        if self
            .node_timeout
            .is_some_and(|timeout| timeout < MIN_NODE_TIMEOUT)
        {
            return Err(wrong("node_timeout is 1 ms or more".to_owned()));
        }
        Ok(Red {
            nodes,
            quorum,
            node_timeout: self.node_timeout,
            backoff: self.backoff,
            durable: self.durable,
            longest: self.longest,
        })
    }
}
