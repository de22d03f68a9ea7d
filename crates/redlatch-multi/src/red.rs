//! The handle of a red-lock, its builder, and the acquisition of a quorum.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{
    StreamExt,
    future::{Either, select},
    stream::FuturesUnordered,
};
use redlatch_core::{
    Acquire, Backoff, Bundle, Client, Error, ErrorKind, Held, Jitter, Lockable, Member, Moment,
    TryAcquire, TryAcquireFor, WaitStrategy,
    family::{AcquireMany, AcquireOptions, Internals, Lease, OwnerChoice, Rule, Wait, invalid},
    runtime::BoxFuture,
};

use crate::{
    NodeOutcome, NodeOutcomes, RedGuard,
    multi::{AGAIN, Deadline, hand_out},
};

/// A lock over a majority of independent servers.
///
/// Each member is a lock of the same name on a server of its own: at least three masters that share
/// nothing and replicate nothing. An owner that holds the lock on a quorum of servers holds the
/// lock. A minority of servers may be unreachable, slow or wiped.
///
/// * **An attempt** asks all nodes at once, each with its own time-out. Once a quorum has granted,
///   the other nodes get the same time again, at least 10 ms. Without a quorum, all grants are
///   released at once, also on nodes that answer later.
/// * **Validity**: each node's hold ends, by this process's clock, a lease after its request was
///   sent, less the margin for clock drift. The lock is valid while a quorum of nodes is. Renewals
///   run per node.
/// * **Waiting** means that the client asks again after a pause with full jitter, so an even split
///   resolves itself.
/// * **A node that was restarted** less than a lease ago does not count, since the node may have
///   forgotten a hold; see [`durable_nodes`](RedLockBuilder::durable_nodes).
/// * **A red-lock lacks** fencing tokens, re-entry, an order of waiters, and safety against clocks
///   or processes that break the bounds. [`Lock`](../redlatch/struct.Lock.html) on one server has
///   tokens and re-entry.
///
/// Source: the Redlock algorithm as Redis documents it, with the validity rule per node instead of
/// per attempt. The [project's page on red-lock][page] discusses the published criticism.
///
/// [page]: https://github.com/redlatch/redlatch/blob/main/docs/book/src/explanation/red-lock.md
#[doc(alias("redlock", "RedissonRedLock", "getRedLock", "quorum"))]
#[derive(Clone, Debug)]
pub struct RedLock(Result<Arc<Red>, Error>);

#[derive(Clone, Debug)]
struct Red {
    nodes: Vec<Member>,
    quorum: usize,
    node_timeout: Option<Duration>,
    backoff: Backoff,
    durable: bool,
    longest: Option<Duration>,
}

impl RedLock {
    /// Creates a red-lock over the same name on at least three independent servers, with the
    /// default settings. The first acquisition reports invalid settings; [`RedLockBuilder::build`]
    /// reports them at once.
    pub fn new(nodes: &[&dyn Lockable]) -> Self {
        Self(Self::builder(nodes).check().map(Arc::new))
    }

    /// Returns a builder of a red-lock.
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
    /// // Locks called `billing` of three clients, each of a server of its own.
    /// let billing = RedLock::builder(&[&one, &two, &three]).build()?;
    /// # drop(billing);
    /// assert!(RedLock::builder(&[&one, &two]).build().is_err(), "too few servers");
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(nodes: &[&dyn Lockable]) -> RedLockBuilder {
        RedLockBuilder {
            nodes: nodes.iter().map(|node| node.member()).collect(),
            red: Red {
                nodes: Vec::new(),
                quorum: majority(nodes.len()),
                node_timeout: None,
                backoff: AGAIN.jitter(Jitter::Full),
                durable: false,
                longest: None,
            },
        }
    }

    /// Acquires on a quorum of nodes, and waits until a quorum grants the lock. Await the returned
    /// builder. Unless you set a lease, all nodes get the default lease of the first node's client.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), redlatch::Error> {
    /// use redlatch::Client;
    ///
    /// let one = Client::connect("redis://one.example").await?;
    /// let two = Client::connect("redis://two.example").await?;
    /// let three = Client::connect("redis://three.example").await?;
    ///
    /// let guard = one.red_lock("billing", &[two, three]).lock().await?;
    /// println!("held on {} of 3 nodes", guard.nodes_held());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// One command per node for each attempt, and one per node for the release. One more per node
    /// and connection asks for its uptime.
    ///
    /// # Errors
    ///
    /// `InvalidOption` for fewer than three nodes, for a quorum that is not a majority, and for an
    /// owner, since a red-lock has no re-entry. `Unavailable`, with [`NodeOutcomes`] as its reason,
    /// after the `patience` of the first node's client without an attempt that a quorum of nodes
    /// could serve. `Unavailable` at once if so many clients lack the rights, or know the name as
    /// another kind, that no attempt can succeed. `Closed` or `Forked` at once if so many clients
    /// are.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. Grants, including late ones, are released in the
    /// background.
    pub fn lock(&self) -> Acquire<RedGuard> {
        Acquire::many(self.nodes())
    }

    /// Acquires on a quorum of nodes if that is possible now. Returns `None` if others hold it on
    /// too many. Otherwise as [`lock`](Self::lock), but too few nodes are an error at once.
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
    /// let (others, billing) = ([two, three], "billing");
    /// let guard = one.red_lock(billing, &others).try_lock().await?;
    /// assert!(guard.is_some());
    /// assert!(one.red_lock(billing, &others).try_lock().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> TryAcquire<RedGuard> {
        TryAcquire::many(self.nodes())
    }

    /// Acquires on a quorum of nodes, and waits up to `wait`. Returns `None` if others held it on
    /// too many in the last attempt that had its full time, `Unavailable` if too few nodes could
    /// serve that. A `wait` of zero is [`try_lock`](Self::try_lock). Otherwise as
    /// [`lock`](Self::lock).
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
    /// let guard = billing.lock().await?;
    /// assert!(billing.try_lock_for(Duration::from_secs(2)).await?.is_none());
    /// guard.release().await?;
    /// assert!(billing.try_lock_for(Duration::from_secs(2)).await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<RedGuard> {
        TryAcquireFor::many(self.nodes(), wait)
    }

    fn nodes(&self) -> Result<Arc<dyn AcquireMany<RedGuard>>, Error> {
        self.0.clone().map(|red| red as _)
    }
}

/// Builds a [`RedLock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is built until `build` is called"]
pub struct RedLockBuilder {
    nodes: Result<Vec<Member>, Error>,
    /// The lock without its nodes.
    red: Red,
}

impl RedLockBuilder {
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
    pub const fn quorum(mut self, quorum: usize) -> Self {
        self.red.quorum = quorum;
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
    pub const fn node_timeout(mut self, timeout: Duration) -> Self {
        self.red.node_timeout = Some(timeout);
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
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.red.backoff = backoff;
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
    pub const fn durable_nodes(mut self) -> Self {
        self.red.durable = true;
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
    pub const fn longest_lease(mut self, lease: Duration) -> Self {
        self.red.longest = Some(lease);
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

    fn check(self) -> Result<Red, Error> {
        let red = Red {
            nodes: self.nodes?,
            ..self.red
        };
        let (nodes, count, quorum) = (&red.nodes, red.nodes.len(), red.quorum);
        if count < 3 {
            let message =
                format!("a red-lock needs three independent servers or more, not {count}");
            return Err(invalid(message));
        }
        for (at, node) in nodes.iter().enumerate() {
            let address = node.client().address();
            let same = |other: &Member| other.client().address() == address;
            if nodes[..at].iter().any(same) {
                let message = format!("two nodes of the red-lock are one server: {address}");
                return Err(invalid(message));
            }
        }
        let majority = majority(count);
        if quorum < majority || quorum > count {
            let message =
                format!("a quorum of {count} nodes is {majority} to {count}, not {quorum}");
            return Err(invalid(message));
        }
        let too_short = |timeout| timeout < MIN_NODE_TIMEOUT;
        if red.node_timeout.is_some_and(too_short) {
            return Err(invalid("node_timeout is 1 ms or more"));
        }
        Ok(red)
    }
}

/// Returns the least number of nodes that is more than half of them.
const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

impl AcquireMany<RedGuard> for Red {
    fn acquire(
        self: Arc<Self>,
        options: AcquireOptions,
    ) -> BoxFuture<Result<Option<RedGuard>, Error>> {
        Box::pin(async move { self.take(&options).await })
    }
}

/// The outcome of an attempt.
enum Attempt {
    Granted(RedGuard),
    /// Others hold it on too many nodes.
    Busy,
    /// Too few nodes could serve it.
    Unserved(NodeOutcomes),
}

impl Red {
    async fn take(&self, options: &AcquireOptions) -> Result<Option<RedGuard>, Error> {
        if let OwnerChoice::Given(_) = options.owner {
            return Err(invalid("a red-lock has no re-entry, and so no owner"));
        }
        // Its clock is read to the end, also if the client is closed.
        let client = self.open_client();
        let lease = self.lease(options).span();
        if let Some(longest) = self.longest.filter(|&longest| lease > longest) {
            let message = format!("the red-lock is set up for leases of {longest:?} at most");
            return Err(Error::new(ErrorKind::InvalidLease, message));
        }
        let deadline = Deadline::of(client, options.wait);
        let backoff = match options.strategy {
            Some(WaitStrategy::Poll(backoff)) => backoff,
            _ => self.backoff,
        };
        let (mut served, mut busy) = (client.now(), false);
        for attempts in 1.. {
            let began = client.now();
            let attempt = self.attempt(options, client, deadline.until).await;
            let now = client.now();
            let hurried = |until: Moment| until - began < self.time_per_node(options);
            let hurried = deadline.until.is_some_and(hurried);
            let over =
                options.wait == Wait::Never || deadline.is_over() || backoff.is_exhausted(attempts);
            match attempt {
                Attempt::Granted(guard) => {
                    hand_out(&guard.bundle, options).await;
                    return Ok(Some(guard));
                }
                Attempt::Busy if over => return Ok(None),
                Attempt::Busy => (served, busy) = (now, true),
                // The wait ended first, which says nothing about the nodes.
                Attempt::Unserved(_) if over && busy && hurried => return Ok(None),
                Attempt::Unserved(outcomes)
                    if over
                        || now - served >= client.patience()
                        || outcomes.hopeless() > self.nodes.len() - self.quorum =>
                {
                    return Err(self.unserved(outcomes));
                }
                Attempt::Unserved(_) => {}
            }
            let pause = backoff.delay(attempts, client.random());
            let left = deadline.until.map_or(pause, |until| until - now);
            self.open_client().pause(pause.min(left)).await;
        }
        Ok(None)
    }

    /// Asks all nodes at once. The `deadline` is by the clock of `client`.
    async fn attempt(
        &self,
        options: &AcquireOptions,
        client: &Client,
        deadline: Option<Moment>,
    ) -> Attempt {
        let started = client.now();
        let mut time = self.time_per_node(options);
        if let Some(deadline) = deadline {
            time = time.min(deadline - started).max(MIN_NODE_TIMEOUT);
        }
        let mut until = started + time;
        let asked = self.nodes.iter().enumerate();
        let mut asked: FuturesUnordered<_> = asked
            .map(|(at, node)| async move { (at, self.ask(node, options).await) })
            .collect();
        let mut outcomes = vec![None; self.nodes.len()];
        let mut unanswered = NodeOutcome::NotAwaited;
        let mut granted: Vec<(usize, Held)> = Vec::new();
        let mut refused = 0;
        // Without a possible majority, a wait is pointless.
        while refused <= self.nodes.len() - self.quorum {
            // An answer that has arrived counts, even after the time.
            let over = pin!(self.open_client().pause(until - client.now()));
            let answer = match select(asked.next(), over).await {
                // The client of the pause was closed.
                Either::Right(_) if client.now() < until => continue,
                Either::Right(_) => {
                    unanswered = NodeOutcome::Late;
                    break;
                }
                Either::Left((None, _)) => break,
                Either::Left((Some(answer), _)) => answer,
            };
            match answer {
                (at, Ok(held)) => {
                    outcomes[at] = Some(NodeOutcome::Granted);
                    granted.push((at, held));
                }
                (at, Err(outcome)) => {
                    refused += 1;
                    outcomes[at] = Some(outcome);
                }
            }
            if granted.len() == self.enough(Rule::NeedQuorum) {
                let now = client.now();
                until = until.min(now + (now - started).max(GRACE));
            }
        }
        // Unanswered requests are undone from here on.
        drop(asked);
        let outcome = |answer: Option<_>| answer.unwrap_or_else(|| unanswered.clone());
        let outcomes = outcomes.into_iter().map(outcome).collect();
        self.judge(granted, outcomes, options)
    }

    fn judge(
        &self,
        mut granted: Vec<(usize, Held)>,
        outcomes: Vec<NodeOutcome>,
        options: &AcquireOptions,
    ) -> Attempt {
        let address = |node: &Member| node.client().address().to_owned();
        let addresses = self.nodes.iter().map(address);
        let outcomes = NodeOutcomes(addresses.zip(outcomes).collect());
        tracing::debug!(target: "redlatch", name = self.nodes[0].name(), %outcomes, "a red-lock asked its nodes");
        granted.sort_by_key(|(at, _)| *at);
        let named = |(at, held): (usize, Held)| (outcomes.0[at].0.clone(), held);
        let (nodes, holds): (Vec<_>, Vec<_>) = granted.into_iter().map(named).unzip();
        let quorum = self.enough(Rule::NeedQuorum);
        let bundle = Bundle::new(holds, quorum);
        if bundle.check().is_ok() {
            let bundle = bundle.needs(self.enough(Rule::LoseWithQuorum).min(quorum));
            return Attempt::Granted(RedGuard {
                bundle,
                nodes,
                outcomes,
                longest: (!self.durable).then(|| self.longest_lease(options)),
                spare: self.nodes.len() - self.quorum,
            });
        }
        if !self.nodes[0].client().keeps(Rule::GiveBackMinority) {
            std::mem::forget(bundle);
            return Attempt::Busy;
        }
        // Dropping the bundle releases all grants at once.
        if outcomes.unserved() > self.nodes.len() - self.quorum {
            return Attempt::Unserved(outcomes);
        }
        Attempt::Busy
    }

    async fn ask(&self, node: &Member, options: &AcquireOptions) -> Result<Held, NodeOutcome> {
        let options = AcquireOptions {
            owner: OwnerChoice::Fresh,
            lease: Some(self.lease(options)),
            wait: Wait::Never,
            // The time of the node is for the grant. Notes are written after that.
            note: None,
            ..options.clone()
        };
        let client = node.client();
        let held = client.acquire(node.primitive(), &options).await;
        let held = held
            .map_err(NodeOutcome::Failed)?
            .ok_or(NodeOutcome::Busy)?;
        held.withhold();
        if self.durable {
            return Ok(held);
        }
        let slot = node.primitive().key().slot();
        let age = client.server_age(slot).await.map_err(NodeOutcome::Failed)?;
        if age < self.longest_lease(&options) && client.keeps(Rule::DistrustYoung) {
            return Err(NodeOutcome::TooYoung);
        }
        Ok(held)
    }

    fn unserved(&self, outcomes: NodeOutcomes) -> Error {
        let message = format!(
            "fewer than {} of {} nodes could serve the red-lock: {outcomes}",
            self.quorum,
            self.nodes.len()
        );
        // A closed client says nothing about its node.
        let spare = self.nodes.len() - self.quorum;
        let kinds = [ErrorKind::Closed, ErrorKind::Forked];
        let kind = kinds
            .into_iter()
            .find(|&kind| outcomes.failed_with(&[kind]) > spare);
        Error::with_reason(kind.unwrap_or(ErrorKind::Unavailable), message, outcomes)
    }

    /// Returns an open client, whose alarms are used. The alarms of a closed client fire at once.
    fn open_client(&self) -> &Client {
        let mut clients = self.nodes.iter().map(|node| node.client());
        let open = clients.find(|client| !client.is_closed());
        open.unwrap_or_else(|| self.nodes[0].client())
    }

    fn time_per_node(&self, options: &AcquireOptions) -> Duration {
        let share = self.lease(options).span() / 50;
        let default = share.clamp(Duration::from_millis(50), Duration::from_millis(500));
        self.node_timeout.unwrap_or(default)
    }

    /// Returns the quorum; one too few where `rule` is not kept.
    fn enough(&self, rule: Rule) -> usize {
        self.quorum - usize::from(!self.nodes[0].client().keeps(rule))
    }

    fn longest_lease(&self, options: &AcquireOptions) -> Duration {
        let default = || self.nodes[0].client().default_lease().span();
        let longest = self.longest.unwrap_or_else(default);
        longest.max(self.lease(options).span())
    }

    /// Returns the lease on every node. The default leases of their clients may differ.
    fn lease(&self, options: &AcquireOptions) -> Lease {
        let default = || self.nodes[0].client().default_lease();
        options.lease.unwrap_or_else(default)
    }
}

/// Shortest time per node.
const MIN_NODE_TIMEOUT: Duration = Duration::from_millis(1);

/// Shortest time for the other nodes once a quorum has granted.
const GRACE: Duration = Duration::from_millis(10);
