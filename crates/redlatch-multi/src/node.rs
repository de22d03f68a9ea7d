//! The answers of the nodes of a red-lock.

use std::{error, fmt};

use redlatch_core::{Error, ErrorKind};

/// The answer of one node to one attempt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeOutcome {
    /// The node granted the lock.
    Granted,
    /// Another owner holds the name there.
    Busy,
    /// The node did not answer in time; a late grant is released.
    Late,
    /// The other nodes decided before this one answered; a late grant is released.
    NotAwaited,
    /// The node has been running for less than the lease, and may have forgotten a living hold. Its
    /// grant was released.
    TooYoung,
    /// The node could not be asked.
    Failed(Error),
}

impl fmt::Display for NodeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Busy => f.write_str("held by another"),
            Self::Late => f.write_str("no answer in time"),
            Self::NotAwaited => f.write_str("not waited for"),
            Self::TooYoung => f.write_str("restarted less than a lease ago"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// The answer of each node. [`Error::reason`] returns it if too few nodes could serve a red-lock.
#[derive(Clone, Debug)]
pub struct NodeOutcomes(pub(crate) Vec<(String, NodeOutcome)>);

impl NodeOutcomes {
    /// Returns each node's address and its outcome.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # use redlatch::ClientBuilder;
    /// # use redlatch::embedded::{EmbeddedServer, EmbeddedTransport, SteppedRuntime};
    /// # use redlatch::runtime::{Address, Login};
    /// # let runtime = std::sync::Arc::new(SteppedRuntime::new());
    /// # let node = async |host: &str| {
    /// #     let server = EmbeddedServer::new(runtime.clone());
    /// #     let transport = EmbeddedTransport::new().serve(host, server);
    /// #     let builder = ClientBuilder::at(Address::Embedded(host.to_owned()), Login::default());
    /// #     let builder = builder.transport(std::sync::Arc::new(transport));
    /// #     builder.runtime(runtime.clone()).connect().await
    /// # };
    /// # let (one, two, three) = (node("one").await?, node("two").await?, node("three").await?);
    /// # tokio::time::sleep(std::time::Duration::from_secs(60)).await; // longer than a lease
    /// use redlatch::NodeOutcome;
    ///
    /// let guard = one.red_lock("billing", &[two, three]).lock().await?;
    /// let granted = |outcome: &NodeOutcome| matches!(outcome, NodeOutcome::Granted);
    /// let nodes = guard.outcomes().iter().filter(|(_, outcome)| granted(outcome));
    /// assert!(nodes.count() >= 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NodeOutcome)> {
        self.0
            .iter()
            .map(|(node, outcome)| (node.as_str(), outcome))
    }

    /// Counts the nodes whose state no later attempt can find improved.
    pub(crate) fn hopeless(&self) -> usize {
        self.failed_with(&[
            ErrorKind::Closed,
            ErrorKind::Forked,
            ErrorKind::WrongKind,
            ErrorKind::Permission,
            ErrorKind::Auth,
        ])
    }

    /// Counts the nodes whose client failed with an error of one of these kinds.
    pub(crate) fn failed_with(&self, kinds: &[ErrorKind]) -> usize {
        self.count(|outcome| match outcome {
            NodeOutcome::Failed(error) => kinds.contains(&error.kind()),
            _ => false,
        })
    }

    /// Counts the nodes that could not serve the attempt.
    pub(crate) fn unserved(&self) -> usize {
        use NodeOutcome::{Failed, Late, TooYoung};
        self.count(|outcome| matches!(outcome, Late | TooYoung | Failed(_)))
    }

    fn count(&self, counts: impl Fn(&NodeOutcome) -> bool) -> usize {
        self.iter().filter(|(_, outcome)| counts(outcome)).count()
    }
}

impl fmt::Display for NodeOutcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (node, outcome)) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { "; " };
            write!(f, "{gap}{node}: {outcome}")?;
        }
        Ok(())
    }
}

impl error::Error for NodeOutcomes {}
