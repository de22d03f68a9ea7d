//! How a red-lock is set up.

use std::{sync::Arc, time::Duration};

use redlatch_core::{Backoff, Error, Jitter, Lockable, Member};

use crate::{
    RedLock,
    red::{MIN_NODE_TIMEOUT, Red, wrong},
};

/// Sets up a [`RedLock`].
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

    /// Sets how many nodes have to hold it: more than half, at most all. Default: the smallest majority.
    #[must_use]
    pub const fn quorum(mut self, quorum: usize) -> Self {
        self.quorum = Some(quorum);
        self
    }

    /// Sets how long one attempt waits for one node, at least 1 ms. Default: a fiftieth of the lease, 50 ms to 500 ms.
    #[must_use]
    pub const fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    /// Sets the pauses between attempts. Default: 10 ms, doubled up to 500 ms, with full jitter.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Says that nodes lose nothing when they restart (an append-only file that is synced with every write), so that one that just did may be counted.
    /// Wrong where it is not true: two can then hold it.
    #[must_use]
    pub const fn durable_nodes(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Sets the longest lease with which anybody holds this name, also by an extension: a server that has been running for less is not counted, since it may have
    /// forgotten a hold that lives. Default: the default lease of the first node's client, or the lease that is asked for if that is longer.
    ///
    /// Set it where some hold it for longer than others. Longer leases are refused once it is set, longer extensions in any case. Says nothing about
    /// [durable](Self::durable_nodes) nodes.
    #[must_use]
    pub const fn longest_lease(mut self, lease: Duration) -> Self {
        self.longest = Some(lease);
        self
    }

    /// Finishes.
    ///
    /// Nodes are told apart by their addresses. One server behind two of them is still not counted twice, as it grants the name to one and tells the other that it is held; it makes
    /// a quorum harder to get. Only clients with different prefixes would be granted both.
    ///
    /// # Errors
    ///
    /// `InvalidOption` for fewer than three nodes, two nodes at one address, a quorum that is no majority or more than all, and a time per node under 1 ms;
    /// `InvalidName`.
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
