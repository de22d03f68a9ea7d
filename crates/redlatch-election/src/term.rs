//! One term of a leader.

use std::{
    future::{Future, poll_fn},
    marker::PhantomData,
    mem,
    ops::Deref,
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::future::{Either, FutureExt, select};
use redlatch_core::{
    Error, Held, HoldState, Lasting, LossCause, Moment, Token,
    family::{Internals, Rule, TermEvent, while_held},
};

use crate::{
    TermTask,
    election::{AGAIN, Plan},
    observe,
    scripts::{self, Looked},
    task::{TaskGroup, stray},
};

/// Proof of leading, for as long as the work runs. [`Election::lead`](crate::Election::lead) passes
/// it to the work.
///
/// A term is made of a confirmed hold of the name, with a deadline by this process's own clock. It
/// cannot be cloned, and it cannot outlive the work:
///
/// ```compile_fail,E0521
/// # async fn example(election: redlatch::Election) {
/// election
///     .lead(async |term| {
///         // A task may run for longer than the work, so it cannot have the term.
///         tokio::spawn(async move { term.ending().await });
///     })
///     .await;
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # async fn example(election: redlatch::Election) {
/// election
///     .lead(async |term| {
///         // `Term` is not `Clone`: this clones the reference only.
///         let copy: redlatch::Term = term.clone();
///     })
///     .await;
/// # }
/// ```
///
/// Tasks of the term are started by [`spawn`](Self::spawn). Code that does not yield, and tasks
/// that were started in another way, are not stopped by the end of a term. For them there is the
/// [token](Self::token), which the resource checks.
#[derive(Debug)]
pub struct Term {
    /// The hold. Each task has a share, so that the name is given back after the last of them, even
    /// if the call that leads is dropped.
    held: Arc<Held>,
    tasks: TaskGroup,
    plan: Arc<Plan>,
    announced: Arc<AtomicBool>,
    steps_down: AtomicBool,
    resigns: AtomicBool,
    /// Until when the work may go on although the renewal of the term was forbidden.
    forbidden_until: OnceLock<Moment>,
}

impl Term {
    pub(crate) fn new(held: Held, plan: &Arc<Plan>) -> Self {
        let term = Self {
            held: Arc::new(held),
            tasks: TaskGroup::default(),
            plan: Arc::clone(plan),
            announced: Arc::default(),
            steps_down: AtomicBool::new(false),
            resigns: AtomicBool::new(false),
            forbidden_until: OnceLock::new(),
        };
        term.report(TermEvent::Began);
        term
    }

    /// Returns the fencing token of this term. It is greater than the token of every earlier term
    /// of the same name. Pass it to every resource that the work writes to.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("billing-worker");
    /// let mut terms = Vec::new();
    /// for _ in 0..2 {
    ///     election.lead(async |term| terms.push(term.token())).await?;
    /// }
    /// assert!(terms[1] > terms[0], "the database refuses the lower token");
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> Token {
        self.held.token()
    }

    /// Returns the name of the election.
    pub fn name(&self) -> &str {
        self.held.name()
    }

    /// Resolves when the work should finish and return: the election's
    /// [`grace`](crate::Election::grace) before the deadline, unless the term is renewed in time.
    /// Resolves at once when the term is lost, and when the client closes.
    ///
    /// The work is dropped when the grace has passed. While the client closes, that is at the end
    /// of the grace of `close`, and at the deadline of the term if that is earlier. If an operator
    /// forbids the renewal, as [`after_lease`](redlatch_core::exclusive::ForceRelease::after_lease)
    /// does, the work has the grace from then on, to the deadline at most. After any other loss the
    /// work is dropped at once. The future owns its data. Sends no request.
    ///
    /// If the work returns after `ending` has resolved, the candidate campaigns again, unless the
    /// work has called [`resign`](Self::resign).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let leading = tokio::spawn(client.election("scheduler").lead(async |term| {
    ///     term.ending().await;
    ///     println!("save the state within {:?}", term.remaining());
    /// }));
    /// # tokio::time::sleep(Duration::from_secs(1)).await;
    /// client.close(Duration::from_secs(5)).await; // ends the term
    /// leading.await.expect("no panic")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. You may call the method again.
    pub fn ending(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.held.ending(self.plan.grace)
    }

    /// Lets this candidate campaign again when the work has returned, even if the term has not
    /// begun to end. The name is released first, so another candidate may lead next. If the client
    /// closes, the next campaign fails with `Closed`. Takes precedence over
    /// [`resign`](Self::resign), in any order of the calls.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler");
    /// let mut terms = 0;
    /// election.lead(async |term| {
    ///     terms += 1;
    ///     if terms < 3 { term.step_down(); } // another candidate may lead next
    /// }).await?;
    /// assert_eq!(terms, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn step_down(&self) {
        self.steps_down.store(true, Ordering::Relaxed);
    }

    /// Lets the candidacy end when the work has returned, even if the term has begun to end. Has no
    /// effect in a term that calls [`step_down`](Self::step_down) as well.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let client = &client;
    /// let election = client.election("scheduler");
    /// election.lead(async |term| {
    ///     # client.election("scheduler").force_release().after_lease().await.expect("an answer");
    ///     term.ending().await; // from here on a return means the next campaign …
    ///     term.resign(); // … unless the work resigns
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resign(&self) {
        self.resigns.store(true, Ordering::Relaxed);
    }

    /// Tells whether a return of the work ends the candidacy. A return is an answer to
    /// [`ending`](Self::ending) once that has resolved, and the end of the work before. A client
    /// that closes has no next campaign.
    pub(crate) fn is_resigned(&self) -> bool {
        if self.steps_down.load(Ordering::Relaxed) {
            return false;
        }
        let resigned = self.resigns.load(Ordering::Relaxed)
            || self.held.state() == HoldState::Lost(LossCause::Closed)
            || self.ending().now_or_never().is_none();
        if resigned {
            self.report(TermEvent::Resigned);
        }
        resigned
    }

    /// Fails with the cause if the work must not continue. Call this method before each step that
    /// takes long without an await. Reads this client's clock and sends no request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let work = async |_table: &str| {};
    /// let election = client.election("scheduler");
    /// election.lead(async |term| {
    ///     for table in ["orders", "invoices"] {
    ///         if term.check().is_err() { return; } // do not begin with another table
    ///         work(table).await;
    ///     }
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](redlatch_core::ErrorKind::Lost).
    pub fn check(&self) -> Result<(), Error> {
        self.work_until().map(drop).map_err(Error::lost)
    }

    /// Returns how long the work may continue if nothing renews the term. Returns zero when the
    /// work must not continue. Reads this client's clock and sends no request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let election = client.election("scheduler");
    /// election.lead(async |term| {
    ///     let step = Duration::from_secs(5); // for each table at most
    ///     assert!(term.remaining() > step, "begin with a table");
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        let until = self.work_until();
        until.map_or(Duration::ZERO, |until| until - self.held.client().now())
    }

    fn work_until(&self) -> Result<Moment, LossCause> {
        match (self.held.work_until(), self.forbidden_until.get()) {
            (Err(LossCause::Revoked), Some(&until)) if self.held.client().now() < until => {
                Ok(until)
            }
            (until, _) => until,
        }
    }

    /// Returns true if the previous term ended without a release. The work of that term may be half
    /// done. `false` does not prove a release; see [`Held::is_after_abandonment`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// # let repair = async || {};
    /// let election = client.election("importer");
    /// election.lead(async |term| {
    ///     if term.is_after_abandonment() {
    ///         repair().await; // the previous leader died in the middle of its work
    ///     }
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_after_abandonment(&self) -> bool {
        self.held.is_after_abandonment()
    }

    /// Runs `future` as a task of this term, on the runtime of the client.
    ///
    /// The task is dropped when the work ends, in any way, and when the term is lost, even if the
    /// work has a grace then. Every poll of the task checks the deadline first. The name is
    /// released only after the task has been dropped. To let the task finish, await the returned
    /// handle before the work ends.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let election = client.election("scheduler");
    /// election.lead(async |term| {
    ///     let token = term.token();
    ///     let sweep = term.spawn(async move { println!("sweep with token {token}") });
    ///     let _ = sweep.await; // otherwise the task is dropped with the work
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A task that does not yield delays the end of the term, and nothing stops the task at the
    /// deadline.
    pub fn spawn<F>(&self, future: F) -> TermTask<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        if !self.held.client().keeps(Rule::EndTasks) {
            return stray(&self.held, future);
        }
        self.tasks.spawn("term", &self.held, future)
    }

    /// Runs the work, at most as long as it may go on. The work has been dropped when this returns.
    ///
    /// The work may run again in the same term, so earlier wishes are forgotten first.
    pub(crate) async fn run<F: Future>(&self, work: F) -> Result<F::Output, LossCause> {
        self.steps_down.store(false, Ordering::Relaxed);
        self.resigns.store(false, Ordering::Relaxed);
        self.announce();
        let ended = {
            let mut work = pin!(work);
            match self.while_held(work.as_mut()).await {
                Err(LossCause::Revoked) => match self.ask_for_grace().await {
                    Some(until) => self.while_forbidden(work, until).await,
                    None => Err(LossCause::Revoked),
                },
                ended => ended,
            }
        };
        if let Err(cause) = ended {
            self.report(TermEvent::Lost(cause));
        }
        ended
    }

    /// Polls the work until the term is lost.
    async fn while_held<F: Future>(&self, work: F) -> Result<F::Output, LossCause> {
        let looks = self.held.client().keeps(Rule::LookBeforeWork);
        while_held(&self.held, looks, work).await
    }

    /// Asks whether the server keeps the name to the end of the lease, as it does if only the
    /// renewal was forbidden. Returns until when the work may go on then. The work is not polled in
    /// the meantime, since the next term may have begun.
    async fn ask_for_grace(&self) -> Option<Moment> {
        let client = self.held.client();
        let (now, kept_until) = (client.now(), self.held.kept_until());
        let look = observe::look(client, self.held.primitive().key());
        let in_time = client.pause((kept_until - now).min(ANSWER));
        let Either::Left((Ok(Looked::Led { token, .. }), _)) =
            select(pin!(look), pin!(in_time)).await
        else {
            return None;
        };
        let until = if client.keeps(Rule::EndGrace) {
            kept_until.min(now + self.plan.grace)
        } else {
            now + self.plan.lease * 2
        };
        // Work that runs again in a term that was forbidden before has had its grace.
        let first = token == self.token() && self.forbidden_until.set(until).is_ok();
        first.then_some(until)
    }

    /// Polls the work of a term that is not renewed any more.
    async fn while_forbidden<F: Future>(
        &self,
        mut work: Pin<&mut F>,
        until: Moment,
    ) -> Result<F::Output, LossCause> {
        let client = self.held.client();
        let mut over = pin!(client.pause(until - client.now()));
        poll_fn(|context| {
            // This reads the clock, and notices that the process was forked.
            self.work_until()?;
            if over.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(LossCause::Revoked));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Ends the tasks of a run of the work, and pauses. Fails if the term ends before.
    pub(crate) async fn pause(&mut self, span: Duration) -> Result<(), LossCause> {
        mem::take(&mut self.tasks).end().await;
        self.while_held(self.held.client().pause(span)).await
    }

    /// Ends the tasks, and gives the name back. Waits for the answer to that, within the client's
    /// `patience`; if there is none, the release goes on in the background.
    pub(crate) async fn end(self) {
        self.tasks.end().await;
        // Every task has dropped its share.
        if let Some(held) = Arc::into_inner(self.held) {
            let _ = held.release().await;
        }
    }

    pub(crate) fn report(&self, event: TermEvent) {
        event.report(self.held.primitive().as_ref(), self.token());
    }

    /// Tells the value to observers, once per term. Does not matter to the work. It is a task,
    /// since the work may not yield.
    fn announce(&self) {
        if self.announced.load(Ordering::Relaxed) {
            return;
        }
        let (held, plan) = (Arc::clone(&self.held), Arc::clone(&self.plan));
        let announcing = announce(held, plan, Arc::clone(&self.announced));
        drop(self.tasks.spawn("announce", &self.held, announcing));
    }
}

/// How long the answer to a question about the term may take. The work stands still meanwhile.
const ANSWER: Duration = Duration::from_secs(1);

impl Lasting for Term {
    fn check(&self) -> Result<(), Error> {
        Self::check(self)
    }

    fn remaining(&self) -> Duration {
        Self::remaining(self)
    }
}

/// A [`Term`] in [`lead_boxed`](crate::Election::lead_boxed). It derefs to the term. The work may
/// borrow data that lives for `'env`.
#[derive(Debug)]
pub struct ScopedTerm<'env> {
    pub(crate) term: Term,
    /// The name of a reference to this type implies that `'env` outlives the reference.
    env: PhantomData<&'env mut &'env ()>,
}

impl ScopedTerm<'_> {
    pub(crate) const fn new(term: Term) -> Self {
        Self {
            term,
            env: PhantomData,
        }
    }
}

impl Deref for ScopedTerm<'_> {
    type Target = Term;

    fn deref(&self) -> &Term {
        &self.term
    }
}

/// Tells the value of a term to observers, until the server has answered.
async fn announce(held: Arc<Held>, plan: Arc<Plan>, announced: Arc<AtomicBool>) {
    let (client, key) = (held.client(), held.primitive().key());
    let call = scripts::announce(key, held.owner(), held.token(), &plan.election.value);
    while !announced.load(Ordering::Relaxed) {
        match client.query(&call, scripts::announced).await {
            Ok(()) => announced.store(true, Ordering::Relaxed),
            Err(error) if error.is_transient() => client.pause(AGAIN).await,
            Err(error) => {
                let event = TermEvent::NotAnnounced(error);
                event.report(held.primitive().as_ref(), held.token());
                return;
            }
        }
    }
}
