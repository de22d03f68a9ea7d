//! The parts of a client that the engine uses: its settings, its clock, its tables.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::{
    select,
    sync::{Notify, watch},
};
use tracing::{Instrument, Span};

use crate::{
    Error, ErrorKind, Owner,
    base::{
        life::Life,
        observe::{self, Labels},
        owner::{AttemptId, ClientId, Numbers},
        primitive::Grant,
        rules::{Rule, Rules},
        sync::{AtomicUsize, Mutex, lock},
        timeouts,
    },
    engine::{
        Ahead, Hold, Holds, LocalQueues, OwnerChoice, PendingRelease, PhaseWatches, Releaser,
        Watchdog, Withdrawals,
        client_record::{About, ClientRecord},
        linger,
        options::Standing,
    },
    net::{LinkClass, Net, Wakes},
    protocol::{
        hold::{HoldState, LocalLease},
        lease::{Lease, Trust},
        name::{Key, Name, Prefix},
        time::Moment,
        waiter::{Busy, Limits, QueueView, RECHECK, Step, Subscription, WaitStrategy, Waiter},
    },
    runtime::Runtime,
};

/// The shared core of one client. Cheap to clone. The client's background work ends when the last
/// clone, handle and guard have been dropped.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Core>);

pub(crate) struct Core {
    pub(crate) net: Arc<Net>,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) prefix: Prefix,
    pub(crate) lease: Lease,
    pub(crate) strategy: WaitStrategy,
    pub(crate) address: Arc<str>,
    pub(crate) trust: Trust,
    pub(crate) retention: Duration,
    pub(crate) patience: Duration,
    pub(crate) long_wait: Duration,
    pub(crate) max_waiters: usize,
    pub(crate) rules: Rules,
    pub(crate) record: Arc<ClientRecord>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) local_queues: Arc<LocalQueues>,
    pub(crate) phase_watches: Arc<PhaseWatches>,
    pub(crate) sibling_tables: SiblingTables,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) withdrawals: Arc<Withdrawals>,
    pub(crate) releaser: Arc<Releaser>,
    pub(crate) limits: Mutex<Limits>,
    pub(crate) waiters: AtomicUsize,
    /// The releases that have not reached the releaser, or that callers await.
    pub(crate) releases: AtomicUsize,
    /// Notified when the last guard of a hold, an acquisition, or an awaited release has gone.
    pub(crate) quieter: Notify,
    /// The holds whose end `close` waits for.
    pub(crate) closing_holds: Mutex<Vec<Weak<Hold>>>,
    /// When a closing client releases the holds that are left. `None` while the client accepts new
    /// work.
    pub(crate) closing: watch::Sender<Option<Moment>>,
}

impl Client {
    /// Returns this client's identity, the first part of its owners.
    pub fn id(&self) -> &ClientId {
        self.0.numbers.client()
    }

    /// Reads the clock that measures holds.
    pub fn now(&self) -> Moment {
        self.runtime().now()
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.0.net.world.runtime
    }

    /// Returns a future that resolves at `at`, or when the client has stopped.
    pub(crate) fn alarm(&self, at: Moment) -> impl Future<Output = ()> + Send + use<> {
        self.0.net.world.alarm(at)
    }

    pub(crate) fn net(&self) -> &Net {
        &self.0.net
    }

    /// Draws the id of a new attempt.
    pub(crate) fn draw_attempt(&self) -> AttemptId {
        AttemptId::draw(&self.0.numbers)
    }

    pub(crate) fn holds(&self) -> &Holds {
        &self.0.holds
    }

    pub(crate) fn local_queues(&self) -> &Arc<LocalQueues> {
        &self.0.local_queues
    }

    /// Tells whether the client keeps a rule. It keeps all rules unless the simulator breaks one.
    #[inline]
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.0.rules.keeps(rule)
    }

    /// Returns from when on the holder of `grant` may count on a lease, and on which, after a
    /// request for `lease` at `sent`. `None` if it may have ended at `now`.
    pub(crate) fn believed(
        &self,
        grant: &Grant,
        lease: Lease,
        sent: Moment,
        now: Moment,
    ) -> Option<(Moment, Duration)> {
        let shorter = grant.lasts.map(|lasts| self.lease_of_holder(lasts));
        let span = shorter.unwrap_or_else(|| lease.span());
        let sent = if self.keeps(Rule::CountFromSend) {
            sent
        } else {
            now
        };
        self.lasts(sent, span, now).then_some((sent, span))
    }

    /// Tells whether a holder may count at `now` on a lease of `span` from `sent`.
    pub(crate) fn lasts(&self, sent: Moment, span: Duration, now: Moment) -> bool {
        let mut local_lease = LocalLease::new(self.0.trust, sent, span);
        !matches!(local_lease.state(now), HoldState::Lost(_))
    }

    /// Returns the lease to request from servers for a holder that counts on `span`. It is longer,
    /// since the clock of a server that takes over may be ahead.
    pub(crate) fn lease_on_server(&self, span: Duration) -> Duration {
        span + self.0.net.world.clocks.allowance()
    }

    /// Returns the lease that a holder may count on, of a lease that lasts `span` on the server.
    pub(crate) fn lease_of_holder(&self, span: Duration) -> Duration {
        span.saturating_sub(self.0.net.world.clocks.allowance())
    }

    /// Returns the key of `name`.
    pub(crate) fn key(&self, name: &Name) -> Key {
        Key::new(&self.0.prefix, name)
    }

    /// Returns the channel that notifies waiters for names in `slot`.
    pub(crate) fn wakes(&self, slot: u16) -> Arc<Wakes> {
        self.net().wakes.of(slot)
    }

    /// Returns how long a waiter that registers now counts as alive: until well after its next
    /// re-check.
    pub(crate) fn registration(&self) -> Duration {
        let backlog = self.limits(|limits| limits.rechecks.backlog(self.now()));
        RECHECK.mul_f64(2.5).max(backlog * 2)
    }

    pub(crate) fn next_step(&self, waiter: &mut Waiter, queue: &QueueView, now: Moment) -> Step {
        let random = self.runtime().random();
        let mut step = self.limits(|limits| waiter.step(now, queue, random, limits));
        if let Step::Wait { until, .. } = &mut step
            && !self.keeps(Rule::LookAgain)
        {
            *until = waiter.plan().bound(Moment::FAR_FUTURE);
        }
        step
    }

    /// Tells a waiter whether messages reach it, after a subscription that began at `now`.
    pub(crate) fn subscribed(&self, waiter: &mut Waiter, ready: bool, now: Moment) {
        if !ready {
            return waiter.on_unsubscribed();
        }
        waiter.on_subscribed();
        if !self.keeps(Rule::TryAfterSubscribing) {
            let busy = Busy {
                remaining: Duration::MAX,
                subscription: Subscription::Active,
                ..Busy::default()
            };
            waiter.on_busy(now, busy);
        }
    }

    /// Hands a release to the background releaser. Works in any context.
    pub(crate) fn enqueue_release(&self, pending: PendingRelease) {
        if self.0.life().is_forked() {
            return;
        }
        self.0.releaser.push(pending);
    }

    /// Hands the release of a dropped guard to the background releaser. A runtime for programs
    /// without async code waits for the answer.
    pub(crate) fn release_dropped(&self, ticket: ReleaseTicket<'_>, pending: PendingRelease) {
        let primitive = Arc::clone(&pending.primitive);
        if !self.keeps(Rule::ReleaseOnDrop) {
            return;
        }
        self.enqueue_release(pending);
        drop(ticket);
        linger(self.runtime(), || {
            let settled = self.0.releaser.ahead(primitive.key(), Ahead::Settled)?;
            Some(Box::pin(settled))
        });
    }

    /// Waits until the queued releases and undos of `key` are ahead of a request that is sent
    /// afterwards over a link of `class`. Waits until `deadline` at the latest. Returns whether it
    /// had to wait.
    ///
    /// # Cancel safety
    ///
    /// The releases are sent even if the future is dropped.
    pub(crate) async fn let_go_first(&self, key: &Key, class: LinkClass, deadline: Moment) -> bool {
        let ahead = match class {
            LinkClass::Command => Ahead::Sent,
            // Requests on different links have no order, so wait for the replies.
            _ => Ahead::Settled,
        };
        let Some(ahead) = self.0.releaser.ahead(key, ahead) else {
            return false;
        };
        Box::pin(self.net().world.until(deadline, ahead)).await;
        true
    }

    fn limits<R>(&self, look: impl FnOnce(&mut Limits) -> R) -> R {
        look(&mut lock(&self.0.limits))
    }
}

// Checks of the client's state, and limits.
impl Client {
    /// The same as [`is_closed`](Self::is_closed), but for the process that created the client.
    pub(crate) fn is_closing(&self) -> bool {
        self.0.closing.borrow().is_some()
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.check_process()?;
        self.check_closing()
    }

    /// The same as [`check_open`](Self::check_open), for callers that have already checked the
    /// process.
    pub(crate) fn check_closing(&self) -> Result<(), Error> {
        if self.is_closing() {
            Err(self.closed())
        } else {
            Ok(())
        }
    }

    /// Fails in a process other than the one that created the client.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        self.0.life().check_process()
    }

    /// Resolves when it is polled in a process other than the one that created the client.
    pub(crate) fn forked(&self) -> impl Future<Output = ()> + Send {
        self.0.life().forked()
    }

    /// Returns the error of a client that accepts no more work.
    pub(crate) fn closed(&self) -> Error {
        self.0.life().closed()
    }

    /// Resolves when the client accepts no more work.
    pub(crate) async fn closing(&self) {
        let mut closing = self.0.closing.subscribe();
        // The sender lives as long as the client does.
        let _ = closing.wait_for(Option::is_some).await;
    }

    /// Awaits `work`, but fails as soon as the client accepts no more work.
    pub(crate) async fn unless_closing<T>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Unpin,
    ) -> Result<T, Error> {
        select! {
            biased;
            result = work => result,
            () = self.closing() => Err(self.closed()),
        }
    }

    /// Tells of a long wait, with what the server knows about the holder. Does not delay the
    /// waiter.
    pub(crate) fn tell_long_wait(
        &self,
        labels: Labels,
        name: &str,
        holder: &str,
        waited: Duration,
    ) {
        // The task keeps no client alive.
        let record = Arc::clone(&self.0.record);
        let (name, holder) = (name.to_owned(), holder.to_owned());
        let deadline = self.now() + timeouts::RECORD_WRITE;
        let tell = async move {
            let of = record.read(&holder, deadline).await;
            let of = of.unwrap_or_default();
            let hold = (holder.as_str(), name.as_str());
            let note = match &of {
                Some(of) if of.has_notes => {
                    let note = record.read_note(About::Hold, hold, None, deadline);
                    note.await.unwrap_or_default()
                }
                _ => None,
            };
            let of = of.as_ref();
            let of = of.map(|of| (of.application.as_str(), of.host.as_str(), of.pid));
            observe::long_wait(&labels, &name, &holder, (of, note), waited);
        };
        let tell = tell.instrument(Span::current());
        self.runtime().spawn("long wait", Box::pin(tell));
    }

    pub(crate) fn resolve(&self, choice: &OwnerChoice) -> Result<(Owner, Standing), Error> {
        let known = match choice {
            OwnerChoice::Given(owner) => Some(owner.clone()),
            // A scope of another client does not apply to this one.
            OwnerChoice::Scope => Owner::current().filter(|owner| owner.client() == self.id()),
            OwnerChoice::Fresh => None,
        };
        match known {
            None => Ok((self.owner(), Standing::Fresh)),
            Some(owner) if owner.client() == self.id() => Ok((owner, Standing::Known)),
            Some(owner) => Err(Error::new(
                ErrorKind::ForeignOwner,
                format!("owner {owner} belongs to another client than {}", self.id()),
            )),
        }
    }

    /// Counts one more acquisition in progress. Fails if the client has as many as it allows.
    pub(crate) fn admit(&self) -> Result<WaiterTicket, Error> {
        let ticket = WaiterTicket(self.clone());
        if self.0.waiters.fetch_add(1, Ordering::Relaxed) < self.0.max_waiters {
            return Ok(ticket);
        }
        Err(Error::new(
            ErrorKind::TooManyWaiters,
            format!(
                "{} acquisitions are under way in this client, as many as it allows",
                self.0.max_waiters
            ),
        ))
    }
}

/// One release that has not reached the releaser, or that a caller awaits. `close` keeps the
/// connections until the ticket is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseTicket<'a>(&'a Client);

impl<'a> ReleaseTicket<'a> {
    /// Counts one more release in progress. Take it before the guard leaves its hold.
    pub(crate) fn new(client: &'a Client) -> Self {
        client.0.releases.fetch_add(1, Ordering::SeqCst);
        Self(client)
    }

    pub(crate) const fn client(&self) -> &'a Client {
        self.0
    }
}

impl Drop for ReleaseTicket<'_> {
    fn drop(&mut self) {
        self.0.0.releases.fetch_sub(1, Ordering::SeqCst);
        if self.0.is_closing() {
            self.0.0.quieter.notify_waiters();
        }
    }
}

/// One acquisition in progress. Dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct WaiterTicket(Client);

impl Drop for WaiterTicket {
    fn drop(&mut self) {
        self.0.0.waiters.fetch_sub(1, Ordering::Relaxed);
        if self.0.is_closing() {
            self.0.0.quieter.notify_waiters();
        }
    }
}

impl Core {
    pub(crate) fn life(&self) -> &Life {
        &self.net.world.life
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", self.id())
            .field("prefix", &self.0.prefix.as_str())
            .finish_non_exhaustive()
    }
}

/// The tables that sibling crates keep for each client: one value of each type that a sibling crate
/// has asked for.
///
/// A table must not keep its client alive.
#[derive(Debug, Default)]
pub(crate) struct SiblingTables(Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl SiblingTables {
    /// Returns the value of type `T`. All callers get the same one.
    pub(crate) fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut tables = lock(&self.0);
        let table = tables
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // Its entry has the key of its type.
        Arc::clone(table).downcast().unwrap_or_default()
    }
}
