//! The handle of an election, and leading, also with work that may fail or has a result.

use std::{
    fmt,
    ops::ControlFlow::{self, Break, Continue},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use redlatch_core::{
    Acquire, Client, Durability, Error, ErrorKind, Held, LossCause,
    exclusive::{Exclusive, ForceRelease, LockInfo},
    family::{Internals, Lease, Primitive, TermEvent, invalid},
};

use crate::{
    Leader, Observe, ScopedTerm, Term,
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
#[doc(alias("leader", "leadership", "LeaderSelector"))]
#[derive(Clone, Debug)]
#[must_use = "nobody leads until `lead` is called and awaited"]
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
        self.exclusive().name().map(|_| self.name.as_str())
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

/// The action of a leader whose work has failed. The choice has no default. With `Resign` as the
/// default, a leader would give up its place after every hiccup. With `Retry`, a broken leader
/// would keep the other candidates from trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Gives the name back, pauses, and campaigns again. Another candidate may lead in the
    /// meantime.
    Resign {
        /// From the release to the next campaign: 10 ms to 365 days.
        pause: Duration,
    },
    /// Stays the leader, pauses, and runs the work again in the same term.
    Retry {
        /// From the end of the work to its next run: 10 ms to 365 days. The term is renewed in the
        /// meantime, and may be lost.
        pause: Duration,
    },
}

/// An [`Election`] with a choice for failed work. See [`Election::on_error`].
#[derive(Clone, Debug)]
#[must_use = "nobody leads until `lead` is called and awaited"]
pub struct FallibleElection {
    election: Election,
    on_error: OnError,
}

impl FallibleElection {
    /// Campaigns, and runs `work` while this candidate leads. Returns the value of the work.
    ///
    /// As [`Election::lead`], except that an `Err` leads to the choice of
    /// [`on_error`](Election::on_error). The event `work_failed` reports an error of the work.
    /// Where a return leads to the next campaign, the value of `Ok` is dropped. Work whose value
    /// counts also at the end of a term calls [`Term::resign`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    /// use redlatch::OnError;
    ///
    /// let mut attempts = 0;
    /// let pause = Duration::from_secs(5);
    /// let election = client.election("importer").on_error(OnError::Retry { pause });
    /// let rows = election.lead(async |_term| {
    ///     attempts += 1;
    ///     if attempts < 3 { Err("the file is not there yet") } else { Ok(1_000) }
    /// }).await?;
    /// assert_eq!((rows, attempts), (1_000, 3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Election::lead`], and `InvalidOption` for a pause that is out of bounds. Never an error
    /// of the work.
    ///
    /// # Cancel safety
    ///
    /// As [`Election::lead`].
    pub fn lead<T, E, F>(
        &self,
        mut work: F,
    ) -> impl Future<Output = Result<T, Error>> + use<T, E, F>
    where
        F: AsyncFnMut(&Term) -> Result<T, E>,
        E: fmt::Display,
    {
        let this = self.clone();
        async move {
            let plan = this.plan()?;
            let mut term = plan.term().await?;
            loop {
                let ran = term.run(work(&term)).await;
                let next = this.next(&term, ran);
                match next.after(term, &plan).await? {
                    Continue(next) => term = next,
                    Break(value) => return Ok(value),
                }
            }
        }
    }

    /// The same as [`lead`](Self::lead), for work that borrows local data inside a spawned task.
    /// See [`Election::lead_boxed`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let pause = std::time::Duration::from_secs(5);
    /// # let election = client.election("importer").on_error(redlatch::OnError::Retry { pause });
    /// let importing = tokio::spawn(async move {
    ///     let tenant = String::from("tenant 7");
    ///     let tenant = &tenant;
    ///     election.lead_boxed(|term| Box::pin(async move {
    ///         Ok::<_, String>(format!("{tenant}, with token {}", term.token()))
    ///     })).await
    /// });
    /// println!("imported for {}", importing.await.expect("no panic")?);
    /// # Ok(())
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
    pub async fn lead_boxed<'env, T, E: fmt::Display, F>(&self, mut work: F) -> Result<T, Error>
    where
        F: for<'a> FnMut(
            &'a ScopedTerm<'env>,
        ) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>,
    {
        let plan = self.plan()?;
        let mut term = ScopedTerm::new(plan.term().await?);
        loop {
            let ran = term.run(work(&term)).await;
            let next = self.next(&term, ran);
            match next.after(term.term, &plan).await? {
                Continue(next) => term = ScopedTerm::new(next),
                Break(value) => return Ok(value),
            }
        }
    }

    fn plan(&self) -> Result<Arc<Plan>, Error> {
        let (OnError::Resign { pause } | OnError::Retry { pause }) = self.on_error;
        if pause < MIN_PAUSE || pause > MAX_PAUSE {
            let name = self.election.name().unwrap_or_default();
            return Err(invalid(format!(
                "the election {name:?} has a pause of {pause:?} after failed work; it is 10 ms to 365 days"
            )));
        }
        self.election.plan()
    }

    fn next<T, E: fmt::Display>(
        &self,
        term: &Term,
        ran: Result<Result<T, E>, LossCause>,
    ) -> Next<T> {
        match ran {
            Ok(Ok(value)) if term.is_resigned() => Next::Done(value),
            Ok(Err(error)) => {
                term.report(TermEvent::WorkFailed(error.to_string()));
                match self.on_error {
                    OnError::Resign { pause } => Next::Campaign(Some(pause)),
                    OnError::Retry { pause } => Next::Retry(pause),
                }
            }
            _ => Next::Campaign(None),
        }
    }
}

/// The step that follows a run of the work.
enum Next<T> {
    Done(T),
    /// Runs the work again after this pause.
    Retry(Duration),
    /// Ends the term, and campaigns again after this pause.
    Campaign(Option<Duration>),
}

impl<T> Next<T> {
    /// Returns the term in which the work runs next, or the value that ends the candidacy.
    async fn after(self, mut term: Term, plan: &Arc<Plan>) -> Result<ControlFlow<T, Term>, Error> {
        if let Self::Retry(pause) = self
            && term.pause(pause).await.is_ok()
        {
            return Ok(Continue(term));
        }
        term.end().await;
        match self {
            Self::Done(value) => return Ok(Break(value)),
            Self::Campaign(Some(pause)) => plan.election.client.pause(pause).await,
            _ => {}
        }
        plan.term().await.map(Continue)
    }
}

/// Shortest pause after failed work. Without one, work that fails at once would load the server.
const MIN_PAUSE: Duration = Duration::from_millis(10);

/// Longest pause after failed work.
const MAX_PAUSE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

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

/// The pause after a request that failed for now. The request has mostly lasted for the client's
/// patience before. A client with `fail_fast` fails at once.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);
