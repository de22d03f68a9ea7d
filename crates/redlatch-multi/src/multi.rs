//! The handle of a multi-lock, and the acquisition of its members.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, join_all, select};
use redlatch_core::{
    Acquire, Backoff, Bundle, Client, Error, ErrorKind, Held, HoldState, Lockable, LossCause,
    Member, Moment, Owner, TryAcquire, TryAcquireFor,
    family::{AcquireMany, AcquireOptions, Internals, OwnerChoice, Rule, Together, Wait},
    runtime::BoxFuture,
};

use crate::{MultiGuard, members::Members};

/// Several locks held as one: all of them or none.
///
/// Members may be of any kind that is [`Lockable`], of one client or of several. The lock acquires
/// them in one order (by kind, then by name), whatever the order of the arguments, so overlapping
/// multi-locks cannot deadlock. A repeated member (same name, kind and address) counts once. Of the
/// two sides of a read-write lock, the lock acquires the write side, which includes the read side.
/// One name as two kinds is `WrongKind`, before any request is sent.
///
/// * **Plain locks and fair locks** of one client are acquired by one script if all are free. In a
///   cluster, one script acquires those that share a `{tag}`. A busy member is awaited alone, in
///   its turn.
/// * **During the wait** for one member, the members before it are held and renewed, also with a
///   fixed lease. If one of them is lost, all are released, and the acquisition begins again.
/// * **Mixed orders**: code that acquires some of the same names one by one, in another order, can
///   deadlock with a multi-lock. Give such waits a deadline.
/// * **Two addresses of one server** are two members, and the acquisition would wait for itself.
///   Use one client per server.
/// * **One name on several servers** is ordered by the addresses of the servers. Write the
///   addresses in the same way in all processes.
/// * **A fixed lease** counts for all members from the last grant. The members before it are then
///   extended.
/// * **`max_hold`** counts for each member from its own grant. A member whose time ends during the
///   wait for another one is held until the last grant, and then for the rest of its lease.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlatch::Error> {
/// # tokio::time::pause();
/// # let client = redlatch::Client::embedded().await?;
/// let (from, to) = (client.lock("account:7"), client.lock("account:9"));
/// let both = client.multi_lock(&[&from, &to]);
/// let guard = both.lock().await?;
/// guard.run(async { /* move money from one account to the other */ }).await?;
/// assert!(to.try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("RedissonMultiLock", "getMultiLock"))]
#[derive(Clone, Debug)]
pub struct MultiLock {
    members: Result<Arc<Members>, Error>,
}

impl MultiLock {
    /// Creates a handle, as `Client::multi_lock` does. The first acquisition reports an invalid
    /// member, or a lack of members.
    pub fn new(members: &[&dyn Lockable]) -> Self {
        Self {
            members: Members::collect(members).map(Arc::new),
        }
    }

    /// Acquires all members, and waits until they are free. Await the returned builder.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let seats: Vec<_> = ["A1", "A2", "A3"].map(|seat| client.lock(seat)).into();
    /// let members: Vec<_> = seats.iter().map(|seat| seat as _).collect();
    /// let booking = client.multi_lock(&members).lock().await?;
    /// for (name, outcome) in booking.release().await? {
    ///     println!("{name}: {outcome}");
    ///     # assert!(outcome.is_clean());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    ///
    /// One command for all plain locks of one client, if all are free, and one for all fair locks;
    /// in a cluster one for those of each hash tag. One for each side of a read-write lock.
    /// Members of other clients may come in between, which costs one command more each time.
    ///
    /// A busy member, and those of its kind before it, cost as much as each alone. With a fixed
    /// lease, one command more for each member that the last command did not acquire, and during a
    /// wait one for each member that is held, every third of the lease.
    ///
    /// The release costs one command for each member, all at once.
    ///
    /// # Errors
    ///
    /// `InvalidOption` without members, and the errors of a member's own acquisition. `Unavailable`
    /// if leases ended before all members had answered, for twice the `patience` of a member's
    /// client. The lock holds no member then. An owner applies to the members of its own client;
    /// the others get a fresh one. `ForeignOwner` if the owner belongs to none of the members'
    /// clients.
    ///
    /// # Cancel safety
    ///
    /// You may drop the future at any await. Acquired members are released in the background, all
    /// at once.
    pub fn lock(&self) -> Acquire<MultiGuard> {
        Acquire::many(self.all())
    }

    /// Acquires all members if all are free now. Returns `None` if another owner holds one of them.
    /// Otherwise as [`lock`](Self::lock).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (table, index) = (client.lock("table"), client.fair_lock("index"));
    /// let reader = index.lock().await?;
    /// let both = client.multi_lock(&[&table, &index]);
    /// assert!(both.try_lock().await?.is_none());
    /// assert!(!table.is_locked().await?, "all or none");
    /// # drop(reader);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self) -> TryAcquire<MultiGuard> {
        TryAcquire::many(self.all())
    }

    /// Acquires all members, and waits up to `wait` for all together. Returns `None` if another
    /// owner held one of them at each try. A `wait` of zero is [`try_lock`](Self::try_lock).
    /// Otherwise as [`lock`](Self::lock).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use std::time::Duration;
    ///
    /// let (invoice, ledger) = (client.lock("invoice:7"), client.lock("ledger"));
    /// let audit = ledger.lock().await?;
    /// let both = client.multi_lock(&[&invoice, &ledger]);
    /// assert!(both.try_lock_for(Duration::from_secs(2)).await?.is_none());
    /// assert!(!invoice.is_locked().await?, "all or none");
    /// # drop(audit);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock_for(&self, wait: Duration) -> TryAcquireFor<MultiGuard> {
        TryAcquireFor::many(self.all(), wait)
    }

    /// Returns the number of members. Duplicates count once. Returns zero if the members are
    /// invalid.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// let (from, to) = (client.lock("account:7"), client.lock("account:9"));
    /// let transfer = client.multi_lock(&[&from, &to, &client.lock("account:7")]);
    /// assert_eq!(transfer.len(), 2); // `account:7` counts once
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.members.as_ref().map_or(0, |members| members.0.len())
    }

    /// Returns true if the multi-lock has no valid member.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlatch::Error> {
    /// # tokio::time::pause();
    /// # let client = redlatch::Client::embedded().await?;
    /// use redlatch::ErrorKind;
    ///
    /// let none = client.multi_lock(&[]);
    /// assert!(none.is_empty());
    /// assert_eq!(none.lock().await.unwrap_err().kind(), ErrorKind::InvalidOption);
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn all(&self) -> Result<Arc<dyn AcquireMany<MultiGuard>>, Error> {
        self.members.clone().map(|members| members as _)
    }
}

impl AcquireMany<MultiGuard> for Members {
    fn acquire(
        self: Arc<Self>,
        options: AcquireOptions,
    ) -> BoxFuture<Result<Option<MultiGuard>, Error>> {
        Box::pin(async move { self.take(options).await })
    }
}

/// The outcome of one try at all members.
enum Taken {
    All(Bundle),
    Busy,
    /// A member was lost during the wait for another.
    Lost(LossCause),
}

impl Members {
    async fn take(&self, options: AcquireOptions) -> Result<Option<MultiGuard>, Error> {
        let owners = Owners::resolve(self, &options.owner)?;
        let client = self.first().client();
        let deadline = Deadline::of(client, options.wait);
        let mut losses = Losses::new(client);
        loop {
            let taking = self.take_in_turn(&options, &owners, &deadline);
            let taken = if options.wait == Wait::Never {
                client.within_patience(false, taking).await?
            } else {
                taking.await?
            };
            match taken {
                Taken::All(bundle) => {
                    hand_out(&bundle, &options).await;
                    return Ok(Some(MultiGuard { bundle }));
                }
                Taken::Busy => return Ok(None),
                Taken::Lost(_) if options.wait == Wait::Never => return Ok(None),
                Taken::Lost(cause) => {
                    let pause = losses.pause(cause)?;
                    deadline.pause(pause).await;
                    if deadline.is_over() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Acquires members in order, with one script for those that it can take together. If it does
    /// not get all, the acquired members are released in the background.
    ///
    /// Members that are taken together are never awaited. If one is busy, it and those before it
    /// are acquired alone, in order, and the rest together again. So a waiter holds only members
    /// that come before the awaited one.
    async fn take_in_turn(
        &self,
        options: &AcquireOptions,
        owners: &Owners,
        deadline: &Deadline<'_>,
    ) -> Result<Taken, Error> {
        let mut bundle = Bundle::new(Vec::new(), 0);
        // The number of members of the last grant, the position up to which members are acquired
        // alone, and whether a busy answer is known.
        let (mut last, mut alone, mut busy) = (0, 0, false);
        while let Some(member) = self.0.get(bundle.holds().len()) {
            let at = bundle.holds().len();
            if deadline.is_over() && at > 0 {
                return Ok(Taken::Busy);
            }
            let options = AcquireOptions {
                answered: busy || at > 0,
                ..owners.options(member, options, deadline)
            };
            let run = self.run(at);
            if run.len() > 1 && at >= alone {
                let asked = member.client().acquire_together(&run, &options);
                let asked = match self.unless_lost(&bundle, &options, asked).await {
                    Ok(asked) => asked?,
                    Err(cause) => return Ok(Taken::Lost(cause)),
                };
                match asked {
                    Together::Granted(holds) => {
                        last = holds.len();
                        bundle = holds.into_iter().fold(bundle, Bundle::and);
                    }
                    Together::Busy(_) if options.wait == Wait::Never || deadline.is_over() => {
                        return Ok(Taken::Busy);
                    }
                    Together::Busy(name) => (alone, busy) = (at + name + 1, true),
                    Together::OneByOne if deadline.is_over() => return Err(unanswered()),
                    Together::OneByOne => alone = at + run.len(),
                }
                continue;
            }
            let next = member.client().acquire(member.primitive(), &options);
            match self.unless_lost(&bundle, &options, next).await {
                Ok(held) => match held? {
                    Some(held) => {
                        held.withhold();
                        (bundle, last) = (bundle.and(held), 1);
                    }
                    None => return Ok(Taken::Busy),
                },
                Err(cause) => return Ok(Taken::Lost(cause)),
            }
        }
        deadline.bound(even_out(&bundle, last, options)).await?;
        match bundle.state() {
            HoldState::Lost(cause) if self.watches() => Ok(Taken::Lost(cause)),
            _ => Ok(Taken::All(bundle)),
        }
    }

    /// Fails with the cause if a member that is held is lost before the end of `future`.
    async fn unless_lost<T>(
        &self,
        bundle: &Bundle,
        options: &AcquireOptions,
        future: impl Future<Output = T>,
    ) -> Result<T, LossCause> {
        if !self.watches() {
            return Ok(future.await);
        }
        match select(pin!(loss(bundle, options)), pin!(future)).await {
            Either::Left((cause, _)) => Err(cause),
            Either::Right((done, _)) => Ok(done),
        }
    }

    fn watches(&self) -> bool {
        let mut members = self.0.iter();
        members.all(|member| member.client().keeps(Rule::WatchTaken))
    }
}

/// Writes the note of an acquisition, and passes its holds on to the caller.
pub(crate) async fn hand_out(bundle: &Bundle, options: &AcquireOptions) {
    if let Some(note) = &options.note {
        bundle.put_note(note).await;
    }
    bundle.holds().iter().for_each(Held::hand_out);
}

/// Resolves when a member is lost. Until then, extends the members that nothing renews: those with
/// a fixed lease every third of it, and those whose `max_hold` is over when half of it is left.
async fn loss(bundle: &Bundle, options: &AcquireOptions) -> LossCause {
    let ends = |held: &&Held| options.max_hold.is_some() || !held.lease().is_renewed();
    let kept: Vec<_> = bundle.holds().iter().filter(ends).collect();
    // Leases and servers may differ, so members do not wait for each other.
    let keeping = pin!(join_all(kept.into_iter().map(keep)));
    match select(pin!(bundle.lost()), keeping).await {
        Either::Left((cause, _)) => cause,
        // No member has to be extended.
        Either::Right((_, lost)) => lost.await,
    }
}

/// Extends a member again and again. Never resolves.
async fn keep(held: &Held) {
    let (span, is_renewed) = (held.lease().span(), held.lease().is_renewed());
    let due = if is_renewed { span / 2 } else { span * 2 / 3 };
    loop {
        let left = held.remaining().saturating_sub(due);
        if left.is_zero() {
            // An extension that has failed is tried again. A lost member shows in its state.
            let _ = held.extend(span).await;
        }
        held.client().pause(left.max(span / 10)).await;
    }
}

/// Extends the members that were granted before the last ones, if they are not renewed.
async fn even_out(bundle: &Bundle, last: usize, options: &AcquireOptions) -> Result<(), Error> {
    let Some(lease) = options.lease.filter(|lease| !lease.is_renewed()) else {
        return Ok(());
    };
    let earlier = &bundle.holds()[..bundle.holds().len() - last];
    let extended = join_all(earlier.iter().map(|held| held.extend(lease.span()))).await;
    // A lost member shows in its state.
    if bundle.check().is_ok() {
        extended.into_iter().collect::<Result<(), _>>()?;
    }
    Ok(())
}

/// The tries in a row at which a lease ended before all members were held.
struct Losses<'a> {
    client: &'a Client,
    /// When the first of them began, and when the last one began.
    since: Moment,
    began: Moment,
    tries: u32,
}

impl<'a> Losses<'a> {
    fn new(client: &'a Client) -> Self {
        let now = client.now();
        Self {
            client,
            since: now,
            began: now,
            tries: 0,
        }
    }

    /// Returns the pause after a try that ended with a loss. Fails if answers have come too late
    /// for the lease for twice the client's patience.
    fn pause(&mut self, cause: LossCause) -> Result<Duration, Error> {
        let (client, now) = (self.client, self.client.now());
        let is_late = matches!(cause, LossCause::Expired | LossCause::Unreachable);
        // A try that is as long as the patience was a wait for another owner.
        if !is_late || now - self.began >= client.patience() {
            (self.since, self.tries) = (now, 0);
        }
        if now - self.since >= client.patience() * 2 {
            let message = "leases ended before all members had answered; set a longer lease";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        self.tries += 1;
        let pause = AGAIN.delay(self.tries, client.random());
        self.began = now + pause;
        Ok(pause)
    }
}

/// The pause before members are acquired again, after the loss of one, and nodes after an attempt.
pub(crate) const AGAIN: Backoff =
    Backoff::exponential(Duration::from_millis(10), Duration::from_millis(500));

fn unanswered() -> Error {
    let message = "the server of a member did not answer in time";
    Error::new(ErrorKind::Unavailable, message)
}

/// One owner per client, for all its members.
struct Owners(Vec<Owner>);

impl Owners {
    fn resolve(members: &Members, choice: &OwnerChoice) -> Result<Self, Error> {
        let wanted = match choice {
            OwnerChoice::Given(owner) => Some(owner.clone()),
            OwnerChoice::Scope => Owner::current(),
            _ => None,
        };
        let mut owners: Vec<Owner> = Vec::new();
        for member in &members.0 {
            let client = member.client();
            if !owners.iter().any(|owner| owner.client() == client.id()) {
                let own = wanted.clone().filter(|owner| owner.client() == client.id());
                owners.push(own.unwrap_or_else(|| client.owner()));
            }
        }
        match choice {
            OwnerChoice::Given(owner) if !owners.contains(owner) => Err(Error::new(
                ErrorKind::ForeignOwner,
                format!("owner {owner} belongs to no member's client"),
            )),
            _ => Ok(Self(owners)),
        }
    }

    fn of(&self, member: &Member) -> OwnerChoice {
        let id = member.client().id();
        let owner = self.0.iter().find(|owner| owner.client() == id).cloned();
        owner.map_or(OwnerChoice::Fresh, OwnerChoice::Given)
    }

    /// Returns the options with which `member` is acquired for the whole.
    fn options(
        &self,
        member: &Member,
        options: &AcquireOptions,
        deadline: &Deadline<'_>,
    ) -> AcquireOptions {
        AcquireOptions {
            owner: self.of(member),
            wait: deadline.left(options.wait),
            whole_lease: true,
            // All notes are written together at the end.
            note: None,
            ..options.clone()
        }
    }
}

/// The end of the time for all members together, by the clock of the first one's client.
pub(crate) struct Deadline<'a> {
    client: &'a Client,
    pub(crate) until: Option<Moment>,
}

impl<'a> Deadline<'a> {
    pub(crate) fn of(client: &'a Client, wait: Wait) -> Self {
        let until = match wait {
            Wait::For(span) => Some(client.now() + span),
            _ => None,
        };
        Self { client, until }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| self.client.now() >= until)
    }

    /// Fails if the time ends before `future`.
    async fn bound(&self, future: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        let Some(until) = self.until else {
            return future.await;
        };
        let over = pin!(self.client.pause(until - self.client.now()));
        match select(pin!(future), over).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(unanswered()),
        }
    }

    /// Pauses for `span`, or until the time ends.
    async fn pause(&self, span: Duration) {
        let left = self.until.map_or(span, |until| until - self.client.now());
        self.client.pause(span.min(left)).await;
    }

    fn left(&self, wait: Wait) -> Wait {
        let left = |until: Moment| Wait::For(until - self.client.now());
        self.until.map_or(wait, left)
    }
}
