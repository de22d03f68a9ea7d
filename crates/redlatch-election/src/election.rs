//! The handle of an election.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use redlatch_core::{
    Acquire, Client, Durability, Error, ErrorKind, Held,
    exclusive::{Exclusive, ForceRelease, LockInfo},
    family::{Internals, Lease, Primitive, invalid},
};

use crate::{
    FallibleElection, Leader, Observe, OnError, ScopedTerm, Term,
    observe::{self, Observed},
    scripts::{FAIR, PLAIN},
};

/// An election under one name, shared by all processes that use the same server and prefix.
///
/// `Client::election` creates a handle.
///
/// * **Leading** is to run the closure of [`lead`](Self::lead) with a `&Term`. There is no
///   `is_leader()`, since its answer could be outdated on arrival.
/// * **Terms**: at most one at a time. Each has a fencing token greater than that of every earlier
///   term. The work of a term is dropped at the term's deadline, before the server can give the
///   name to another candidate, even if the server is unreachable.
/// * **Handover**: the name is released only after the work and the tasks of the term have ended.
/// * **A term that ends** ends the work, and the candidate campaigns again. So work that returns
///   because [`Term::ending`] has resolved stays a candidate. Work that returns earlier ends the
///   candidacy, unless the work has called [`Term::step_down`].
/// * **A leader that dies** leads until its lease ends, 30 s by default.
/// * **Order**: any candidate may lead next. With [`fair`](Self::fair) the candidates lead in order
///   of arrival. All candidates of one name have to choose the same.
/// * **An unreachable server** does not end a campaign. The candidate continues until it can lead.
/// * **Failover** is as with [`Lock`](../redlatch/struct.Lock.html): two terms are possible, and
///   the later one has the greater token.
/// * **Code that does not yield** is not dropped at the deadline, nor is `spawn_blocking`. Pass the
///   token to the resource that such code writes to.
///
/// # Examples
///
/// ```no_run
/// # async fn step(_: redlatch::Token) {}
/// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
/// use std::pin::pin;
///
/// let election = client.election("scheduler").value("10.0.0.7:9000");
/// election.lead(async |term| {
///     let mut ending = pin!(term.ending());
///     loop {
///         tokio::select! {
///             () = &mut ending => return, // `grace` is left, then this candidate campaigns again
///             () = step(term.token()) => {}
///         }
///     }
/// }).await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "leader")]
#[doc(alias = "leadership")]
#[doc(alias = "LeaderSelector")]
#[derive(Clone)]
pub struct Election {
    pub(crate) client: Client,
    name: String,
    class: String,
    fair: bool,
    lease: Option<Duration>,
    grace: Option<Duration>,
    pub(crate) value: String,
    note: Option<Arc<str>>,
    durability: Durability,
}

impl Election {
    /// Creates a handle of the election called `name`, as `Client::election` does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Self {
            client: client.clone(),
            name: name.as_ref().to_owned(),
            class: String::new(),
            fair: false,
            lease: None,
            grace: None,
            value: String::new(),
            note: None,
            durability: Durability::Master,
        }
    }

    /// Labels this handle's metrics and events with `class`. Names are never used as labels.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        class.clone_into(&mut self.class);
        self
    }

    /// Sets the lease of a term, which is renewed every third of it: 1 s to 365 days, else
    /// `InvalidLease`. Default: the client's default lease, 30 s.
    ///
    /// After a leader has died, the other candidates wait for at most one lease. A leader may lead
    /// without an answer of the server for at most one lease.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// // After a leader has died, another candidate leads within 10 s.
    /// let election = client.election("scheduler").lease(Duration::from_secs(10));
    /// election.lead(async |term| assert!(term.remaining() < Duration::from_secs(10))).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets how long before the deadline [`Term::ending`] resolves: at most half of the lease, else
    /// `InvalidOption`. Default: a fifth of the lease.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// // If the server stops answering, the work has 10 s to save its state.
    /// let election = client.election("scheduler").grace(Duration::from_secs(10));
    /// election.lead(async |term| println!("token {}", term.token())).await?;
    /// let wrong = client.election("scheduler").grace(Duration::from_secs(20));
    /// assert!(wrong.lead(async |_term| ()).await.is_err(), "more than half of the lease");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Sets the value that others see while this candidate leads, such as its address: at most 1024
    /// bytes, else `InvalidOption`. Default: empty.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler").value("10.0.0.7:9000");
    /// # let election = &election;
    /// election.lead(async |_term| {
    ///     # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ///     let leader = election.leader().await.ok().flatten();
    ///     let address = leader.and_then(|leader| leader.value);
    ///     assert_eq!(address.as_deref(), Some("10.0.0.7:9000")); // for the other replicas
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn value(mut self, value: &str) -> Self {
        value.clone_into(&mut self.value);
        self
    }

    /// Lets candidates lead in the order in which they began to wait, as a fair lock does. Default:
    /// any candidate may lead when the name is free.
    ///
    /// All candidates of a name have to choose the same. Otherwise they get `WrongKind`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// // On each replica: the candidate that has waited longest leads next.
    /// let election = client.election("scheduler").fair();
    /// election.lead(async |term| println!("token {}", term.token())).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn fair(mut self) -> Self {
        self.fair = true;
        self
    }

    /// Attaches a note to the term, for example its purpose: 1 to 256 bytes, else
    /// `InvalidOption`. `Client::objects` and the command `redlatch ls` show it. See
    /// [`Acquire::note`](redlatch_core::Acquire::note).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler").note("release 2.4.1");
    /// election.lead(async |_term| {
    ///     # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    ///     if let Some(Ok(leads)) = client.objects("scheduler").next().await {
    ///         assert_eq!(leads.holders[0].note.as_deref(), Some("release 2.4.1"));
    ///     }
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sets the durability that a term and its renewals need before they count. Default:
    /// [`Durability::Master`]. See [`Acquire::durability`](redlatch_core::Acquire::durability).
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// use redlatch::Durability;
    ///
    /// // A replica has each term, so a failover to that replica keeps the leader.
    /// let election = client.election("scheduler").durability(Durability::Replicas(1));
    /// election.lead(async |term| println!("token {}", term.token())).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Chooses what follows an error of the work. Work that may fail, or that has a result, needs
    /// this choice.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # use std::time::Duration;
    /// use redlatch::OnError;
    ///
    /// let pause = Duration::from_secs(5);
    /// let election = client.election("importer").on_error(OnError::Resign { pause });
    /// let mut files = ["broken", "whole"].into_iter();
    /// let imported = election.lead(async |_term| match files.next() {
    ///     Some("broken") => Err("another replica may try"),
    ///     file => Ok(file),
    /// }).await?;
    /// # assert_eq!(imported, Some("whole"));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn on_error(self, on_error: OnError) -> FallibleElection {
        FallibleElection {
            election: self,
            on_error,
        }
    }

    /// Campaigns, and runs `work` while this candidate leads. Returns when the work has ended the
    /// candidacy, after the name has been released.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler");
    /// let mut done = None;
    /// election.lead(async |term| {
    ///     done = Some(term.token()); // work that returns ends the candidacy
    /// }).await?;
    /// assert!(done.is_some());
    /// assert!(election.leader().await?.is_none(), "the name has been released");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// | the work returns | next |
    /// |---|---|
    /// | before [`Term::ending`] resolves, or while the client closes | the call returns |
    /// | after [`Term::ending`] has resolved, as it does after an outage | campaigns again |
    /// | after it has called [`Term::resign`] | the call returns |
    /// | after it has called [`Term::step_down`] | campaigns again |
    ///
    /// The work begins when the server has confirmed that this candidate leads. If the term is
    /// lost, the work is dropped at its next await, before any other await of this call. Then the
    /// call campaigns again, and runs the work again in its next term. While the client closes, the
    /// work may continue until the end of the grace of `close`, but not beyond the deadline that
    /// the term had at the call; [`Term::ending`] resolves then. The work may also continue for its
    /// own [`grace`](Self::grace) when an operator forbids the renewal of the term. The call first
    /// asks the server about that, for a second at most, and the work is not polled meanwhile.
    ///
    /// The future owns the election, and is `Send` if the work is. So `tokio::spawn` takes the call
    /// itself, with an `async move` closure that owns what it captures:
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # trait Repo: Send + Sync { fn save(&self, token: redlatch::Token); }
    /// # fn example(election: redlatch::Election, repo: Arc<dyn Repo>) {
    /// tokio::spawn(election.lead(async move |term| {
    ///     repo.save(term.token());
    ///     term.ending().await;
    /// }));
    /// # }
    /// ```
    ///
    /// Inside an `async` block that is spawned, the compiler refuses a closure that captures a
    /// reference, and some owned types, such as `Arc<dyn Repo>` and those with a `&'static str` in
    /// them (rust-lang/rust#138207). "Implementation of `AsyncFnMut` is not general enough" or
    /// "implementation of `Send` is not general enough" is the error. Spawn the call itself, wrap
    /// the value in a type of its own, or use [`lead_boxed`](Self::lead_boxed). On a future that is
    /// awaited in place, you may use references.
    ///
    /// ```compile_fail
    /// # fn example(election: redlatch::Election) {
    /// tokio::spawn(async move {
    ///     let local = String::from("borrowed");
    ///     election
    ///         .lead(async |term| {
    ///             println!("{local} leads with {}", term.token());
    ///             term.ending().await;
    ///         })
    ///         .await
    /// });
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Three commands per term, a renewal per third of the lease, and the cost of a waiter of a
    /// lock while others lead.
    ///
    /// # Errors
    ///
    /// At once, or in a later campaign: `InvalidName`, `InvalidLease`, `InvalidOption`,
    /// `WrongKind`, `Permission`, `Auth`, `Protocol`, and `Closed` when the client closes. After a
    /// [transient](Error::is_transient) error, such as an unreachable server, the campaign
    /// continues.
    ///
    /// # Panics
    ///
    /// A panic of the work continues in the caller. The name is released in the background after
    /// the tasks of the term have ended.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. The work is dropped, the tasks of the term are
    /// stopped, and the name is released in the background after they have ended.
    #[doc(alias = "campaign")]
    pub fn lead<F>(&self, mut work: F) -> impl Future<Output = Result<(), Error>> + use<F>
    where
        F: AsyncFnMut(&Term),
    {
        let plan = self.plan();
        async move {
            let plan = plan?;
            loop {
                let term = plan.term().await?;
                let ran = term.run(work(&term)).await;
                let done = ran.is_ok() && term.is_resigned();
                term.end().await;
                if done {
                    return Ok(());
                }
            }
        }
    }

    /// The same as [`lead`](Self::lead), for work that borrows local data inside a spawned task:
    ///
    /// ```no_run
    /// # fn example(election: redlatch::Election) {
    /// tokio::spawn(async move {
    ///     let local = String::from("borrowed");
    ///     let local = &local;
    ///     election
    ///         .lead_boxed(|term| {
    ///             Box::pin(async move {
    ///                 println!("{local} leads with {}", term.token());
    ///                 term.ending().await;
    ///             })
    ///         })
    ///         .await
    /// });
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lead`](Self::lead).
    ///
    /// # Cancel safety
    ///
    /// As [`lead`](Self::lead).
    pub async fn lead_boxed<'env, F>(&self, mut work: F) -> Result<(), Error>
    where
        F: for<'a> FnMut(&'a ScopedTerm<'env>) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    {
        let plan = self.plan()?;
        loop {
            let term = ScopedTerm::new(plan.term().await?);
            let ran = term.run(work(&term)).await;
            let done = ran.is_ok() && term.is_resigned();
            term.term.end().await;
            if done {
                return Ok(());
            }
        }
    }

    /// Returns the present leader. Returns `None` if no candidate leads. Costs one command. The
    /// answer may be outdated on arrival and decides nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler").value("10.0.0.7:9000");
    /// election.lead(async |term| {
    ///     # tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    ///     let leader = client.election("scheduler").leader().await;
    ///     let leader = leader.expect("an answer").expect("a leader");
    ///     assert_eq!(leader.value.as_deref(), Some("10.0.0.7:9000")); // forward requests there
    ///     assert_eq!(leader.token, term.token());
    /// }).await?;
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
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let observed = self.observed()?;
        let looked = observe::look(&self.client, &observed.0.key).await?;
        Ok(observe::leader(looked))
    }

    /// Returns the hold of the present term: its owner, and how many candidates wait. Returns
    /// `None` if no candidate leads. Costs one command. The answer may be outdated on arrival and
    /// decides nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler");
    /// assert!(election.info().await?.is_none(), "no candidate leads");
    /// election.lead(async |term| {
    ///     let hold = election.info().await.ok().flatten();
    ///     assert_eq!(hold.map(|hold| hold.token), Some(term.token()));
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader). `WrongKind` also if the candidates have chosen
    /// [`fair`](Self::fair) and this handle has not, or the other way round.
    ///
    /// # Cancel safety
    ///
    /// The method only reads.
    pub async fn info(&self) -> Result<Option<LockInfo>, Error> {
        self.exclusive().info().await
    }

    /// Returns a stream of the leaders, for display and for forwarding. The stream decides nothing.
    /// The first item is the present state, and each further item is a change.
    ///
    /// A message announces a new leader at once, and a check finds a leader after 2 s ± 20 % at the
    /// latest. The end of the last term is found within the same time. Changes that follow each
    /// other quickly may be one item.
    ///
    /// ```no_run
    /// # async fn example(client: redlatch::Client) -> Result<(), redlatch::Error> {
    /// let mut leaders = client.election("scheduler").observe();
    /// while let Some(leader) = leaders.next().await {
    ///     match leader? {
    ///         Some(leader) => println!("forward to {:?}", leader.value),
    ///         None => println!("no leader at present"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// Two commands per change, and one check every two seconds for all observers of this name in
    /// this client.
    #[doc(alias = "watch")]
    pub fn observe(&self) -> Observe {
        Observe::new(&self.client, self.observed().map(Arc::new))
    }

    /// Ends the present term of any candidate. Await the returned builder. The leader loses its
    /// term within a round trip, or at its next renewal, and campaigns again.
    ///
    /// **The call breaks "one term at a time" by definition**, unless you choose
    /// [`after_lease`](ForceRelease::after_lease). The work of the leader has its
    /// [`grace`](Self::grace) then. See [`Exclusive::force_release`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler");
    /// // The leader hangs: no more renewals, so another candidate leads when the lease ends.
    /// let ended = election.force_release().after_lease().await?;
    /// println!("{}", if ended { "the term ends" } else { "no candidate leads" });
    /// # assert!(!ended);
    /// # Ok(())
    /// # }
    /// ```
    pub fn force_release(&self) -> ForceRelease {
        self.exclusive().force_release()
    }

    /// Returns the name as it was given. Returns `None` if the name is invalid.
    pub fn name(&self) -> Option<&str> {
        self.exclusive().key().ok().map(|_| self.name.as_str())
    }

    /// Checks the options, and returns what the campaign goes for.
    pub(crate) fn plan(&self) -> Result<Arc<Plan>, Error> {
        let (name, bytes) = (&self.name, self.value.len());
        let default = || self.client.default_lease().span().max(Lease::MIN_RENEWED);
        let lease = Lease::renewed(self.lease.unwrap_or_else(default));
        let lease = lease.map_err(|error| {
            let message = format!("the election {name:?}: {error}");
            Error::with_reason(ErrorKind::InvalidLease, message, error)
        })?;
        let lease = lease.span();
        let grace = self.grace.unwrap_or(lease / 5);
        if grace > lease / 2 {
            return Err(invalid(format!(
                "the election {name:?} has a grace of {grace:?}, which is longer than half of its lease of {lease:?}: \
                 it would begin although renewals succeed"
            )));
        }
        if bytes > MAX_VALUE {
            return Err(invalid(format!(
                "the election {name:?} has a value of {bytes} bytes; it has {MAX_VALUE} at most"
            )));
        }
        Ok(Arc::new(Plan {
            election: self.clone(),
            primitive: self.exclusive().primitive()?,
            lease,
            grace,
        }))
    }

    fn observed(&self) -> Result<Observed, Error> {
        self.exclusive().handle().identity().map(Observed)
    }

    fn exclusive(&self) -> Exclusive {
        let kind = if self.fair { &FAIR } else { &PLAIN };
        Exclusive::new(&self.client, kind, &self.name).class(&self.class)
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("name", &self.name)
            .field("fair", &self.fair)
            .finish_non_exhaustive()
    }
}

/// Longest value in bytes.
const MAX_VALUE: usize = 1024;

/// The object and the options of a campaign.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) election: Election,
    pub(crate) primitive: Arc<dyn Primitive>,
    pub(crate) lease: Duration,
    pub(crate) grace: Duration,
}

impl Plan {
    /// Campaigns until a term begins. Trouble that passes does not end the campaign.
    pub(crate) async fn term(self: &Arc<Self>) -> Result<Term, Error> {
        let (election, client) = (&self.election, &self.election.client);
        loop {
            let primitive = Ok(Arc::clone(&self.primitive));
            let acquire = Acquire::<Held>::new(client, primitive)
                .renewed_lease(self.lease)
                .durability(election.durability)
                .whole_lease()
                .fresh_owner();
            let note = election.note.iter();
            let acquire = note.fold(acquire, |acquire, note| acquire.note(note));
            match acquire.await {
                Ok(held) => return Ok(Term::new(held, self)),
                Err(error) if passes(&error) => client.pause(AGAIN).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Tells whether a campaign goes on after `error`. A client whose wait strategy has a number of
/// attempts ends an acquisition, and a campaign has no such end.
fn passes(error: &Error) -> bool {
    error.is_transient() || error.kind() == ErrorKind::TooManyAttempts
}

/// The pause after an acquisition that failed for now. It has mostly lasted for the client's
/// patience before.
const AGAIN: Duration = Duration::from_secs(1);
