//! The guards of a multi-lock and of a red-lock.

use std::{error, fmt, time::Duration};

use redlatch_core::{
    Bundle, Error, ErrorKind, Held, HoldState, Owned, Released, Token, guards_of_several,
};

/// All members of a [`MultiLock`](crate::MultiLock), held as one. The loss of any member is the
/// loss of the whole. Dropping the guard releases all of them in the background.
/// [`release`](Self::release) also returns the outcome of each.
///
/// After a loss, the remaining members are still held and renewed until this guard is dropped.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases at once"]
pub struct MultiGuard {
    pub(crate) bundle: Bundle,
}

impl MultiGuard {
    /// Returns the members' guards, in the order of acquisition: by kind, then by name. A hash tag
    /// counts before the rest of its name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (ledger, invoice) = (client.lock("ledger"), client.lock("invoice:7"));
    /// let guard = client.multi_lock(&[&ledger, &invoice]).lock().await?;
    /// for member in guard.members() {
    ///     println!("{} with token {}", member.name(), member.token());
    /// }
    /// # assert_eq!(guard.members()[0].name(), "invoice:7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn members(&self) -> &[Held] {
        self.bundle.holds()
    }

    /// Splits the guard: each member is held on its own from then on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (one, two) = (client.lock("step:1"), client.lock("step:2"));
    /// let both = client.multi_lock(&[&one, &two]).lock().await?;
    /// for member in both.into_members() {
    ///     println!("{} with token {}", member.name(), member.token());
    ///     member.release().await?; // step by step
    /// }
    /// assert!(!one.is_locked().await? && !two.is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_members(self) -> Vec<Held> {
        self.bundle.into_holds()
    }

    /// Returns the fencing token of the member called `name`. If members of different servers share
    /// the name, returns the token of the first one. A read side has the token of the last write. A
    /// member in the layout of another library has no token. If a lock of this library has the same
    /// name, the method returns the token of that lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (invoice, ledger) = (client.lock("invoice:7"), client.lock("ledger"));
    /// let guard = client.multi_lock(&[&invoice, &ledger]).lock().await?;
    /// if let Some(token) = guard.token("invoice:7") {
    ///     println!("write the invoice with token {token}");
    /// }
    /// assert_eq!(guard.token("invoice:8"), None); // no member
    /// # assert!(guard.token("invoice:7").is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self, name: &str) -> Option<Token> {
        let members = self.members().iter();
        let mut tokens = members
            .filter(|member| member.name() == name)
            .map(Held::granted_token);
        tokens.find(|&token| token != Token::NONE)
    }

    /// Releases all members at once. Returns the outcome of each by name, in the order of
    /// [`members`](Self::members). Costs one command per member. An earlier loss of a member is an
    /// outcome and not an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let server = redlatch::embedded::Server::start();
    /// # let client = server.client().await?;
    /// use redlatch::Released;
    ///
    /// let (invoice, ledger) = (client.lock("invoice:7"), client.lock("ledger"));
    /// let guard = client.multi_lock(&[&invoice, &ledger]).lock().await?;
    /// server.lose("ledger"); // the server loses its data
    /// let outcomes = guard.release().await?;
    /// assert_eq!(outcomes[0], ("invoice:7".to_owned(), Released::Free));
    /// assert_eq!(outcomes[1], ("ledger".to_owned(), Released::Forgotten));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Held::release`], if the release of any member was not answered. The text names
    /// these members. Their releases continue in the background, and the other members are
    /// released. For the outcome of each member, release those of
    /// [`into_members`](Self::into_members).
    ///
    /// # Cancel safety
    ///
    /// After a drop, the releases continue in the background.
    pub async fn release(self) -> Result<Vec<(String, Released)>, Error> {
        let name = |member: &Held| member.name().to_owned();
        let names: Vec<_> = self.members().iter().map(name).collect();
        let members = names.len();
        let (outcomes, mut failed) = release_all(names, self.bundle).await;
        match failed.len() {
            0 => Ok(outcomes),
            // It names its object.
            1 => Err(failed.remove(0).1),
            _ => Err(unanswered(&failed, members)),
        }
    }
}

guards_of_several!(
    MultiGuard,
    Held,
    Bundle::extend,
    async |guard: MultiGuard| guard.release().await.map(together)
);

impl Owned for MultiGuard {}

/// Releases all holds at once. Returns the outcomes and the failures, each with the name of its
/// hold.
async fn release_all(
    names: Vec<String>,
    bundle: Bundle,
) -> (Vec<(String, Released)>, Vec<(String, Error)>) {
    let (mut released, mut failed) = (Vec::new(), Vec::new());
    for (name, outcome) in names.into_iter().zip(bundle.release().await) {
        match outcome {
            Ok(outcome) => released.push((name, outcome)),
            Err(error) => failed.push((name, error)),
        }
    }
    (released, failed)
}

/// Returns the outcome of a release of several.
fn together(outcomes: Vec<(String, Released)>) -> Released {
    Released::together(outcomes.into_iter().map(|(_, released)| released))
}

/// Returns the error of several members whose releases have failed.
fn unanswered(failed: &[(String, Error)], members: usize) -> Error {
    let names: Vec<_> = failed.iter().map(|(name, _)| format!("{name:?}")).collect();
    let first = &failed[0].1;
    let message = format!(
        "{} of {members} members ({}) may be held until their leases end: {first}",
        failed.len(),
        names.join(", ")
    );
    Error::with_reason(first.kind(), message, first.clone())
}

/// A hold of one name on a quorum of independent servers. Dropping it releases everywhere in the
/// background; [`release`](Self::release) also returns the outcome on each node.
///
/// Each node's hold has its own deadline by this process's clock, and its own renewal. The red-lock
/// is lost when fewer than a quorum are left.
///
/// A red-lock has no fencing token, since the tokens of independent servers cannot be compared. The
/// [project's page on red-lock][page] says what to do where two holders must not write.
///
/// [page]: https://github.com/redlatch/redlatch/blob/main/docs/book/src/explanation/red-lock.md
#[derive(Debug)]
#[must_use = "a guard that is dropped at once releases at once"]
pub struct RedGuard {
    pub(crate) bundle: Bundle,
    pub(crate) nodes: Vec<String>,
    pub(crate) outcomes: NodeOutcomes,
    pub(crate) longest: Option<Duration>,
    /// How many nodes may be taken while the others are a quorum.
    pub(crate) spare: usize,
}

impl RedGuard {
    /// Returns each node's answer to the acquisition.
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
    /// let guard = one.red_lock("billing", &[two, three]).lock().await?;
    /// for (node, outcome) in guard.outcomes().iter() {
    ///     println!("{node}: {outcome}");
    /// }
    /// # assert_eq!(guard.outcomes().iter().count(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn outcomes(&self) -> &NodeOutcomes {
        &self.outcomes
    }

    /// Returns the number of nodes that hold the lock at this instant, by the knowledge of this
    /// process.
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
    /// let guard = one.red_lock("billing", &[two, three]).lock().await?;
    /// if guard.nodes_held() < 3 {
    ///     eprintln!("a server is missing: {}", guard.outcomes());
    /// }
    /// # assert!(guard.nodes_held() >= 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn nodes_held(&self) -> usize {
        let lives = |hold: &&Held| !matches!(hold.state(), HoldState::Lost(_));
        self.bundle.holds().iter().filter(lives).count()
    }

    /// Extends the lease to at least `span` from now, once, on a quorum of nodes: 50 ms to 365
    /// days. Costs one command per node, all at once.
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
    /// use std::time::Duration;
    ///
    /// let billing = one.red_lock("billing", &[two, three]);
    /// let guard = billing.lock().lease(Duration::from_secs(10)).await?;
    /// guard.extend(Duration::from_secs(20)).await?; // for the next step
    /// assert!(guard.remaining() > Duration::from_secs(15));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidLease` for more than the [longest lease](crate::RedLockBuilder::longest_lease),
    /// unless nodes are durable. An error of [`Held::extend`] on one of the nodes, if fewer than a
    /// quorum could be extended; some may have been.
    ///
    /// # Cancel safety
    ///
    /// After a drop, each node has its old or its new deadline.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        if let Some(longest) = self.longest.filter(|&longest| span > longest) {
            let message = format!(
                "nodes that restart may count again after {longest:?}, so no lease of the red-lock is longer"
            );
            return Err(Error::new(ErrorKind::InvalidLease, message));
        }
        self.bundle.extend(span).await
    }

    /// Releases on all nodes at once. Returns the outcome on each node that granted the lock and
    /// has answered now. Costs one command per node.
    ///
    /// A node that does not answer is not an error while a quorum of the others is free.
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
    /// let guard = one.red_lock("billing", &[two, three]).lock().await?;
    /// for (node, released) in guard.release().await? {
    ///     println!("{node}: {released}");
    ///     # assert!(released.is_clean());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The kind of [`Held::release`] of one of the nodes, if so many have not answered that no
    /// client can get a quorum before their leases end. [`Error::reason`] lists these nodes.
    /// Unanswered releases continue in the background.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the releases continue in the background.
    pub async fn release(self) -> Result<Vec<(String, Released)>, Error> {
        let (nodes, spare) = (self.outcomes.0.len(), self.spare);
        let name = self.holds().first().map(|hold| hold.name().to_owned());
        let (released, failed) = release_all(self.nodes, self.bundle).await;
        match failed.first() {
            Some((_, first)) if failed.len() > spare => {
                let kind = first.kind();
                let failed = failed.into_iter();
                let failed = failed.map(|(node, error)| (node, NodeOutcome::Failed(error)));
                let failed = NodeOutcomes(failed.collect());
                let held = failed.0.len();
                let message = format!(
                    "it may be held on {held} of {nodes} nodes until its lease ends: {failed}"
                );
                let error = Error::with_reason(kind, message, failed);
                Err(error.about("red_lock", &name.unwrap_or_default()))
            }
            _ => Ok(released),
        }
    }
}

guards_of_several!(RedGuard, Held, RedGuard::extend, async |guard: RedGuard| {
    guard.release().await.map(together)
});

impl Owned for RedGuard {}

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
        let all = self.0.iter();
        all.map(|(node, outcome)| (node.as_str(), outcome))
    }

    /// Counts the nodes whose state no later attempt can find improved.
    pub(crate) fn hopeless(&self) -> usize {
        use ErrorKind::{Auth, Closed, Forked, Permission, WrongKind};
        self.failed_with(&[Closed, Forked, WrongKind, Permission, Auth])
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
