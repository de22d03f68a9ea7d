//! A hold as this process knows it. All guards of the hold share it.

mod loss;
mod renewing;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    slice,
    sync::Arc,
    thread,
    time::Duration,
};

use tokio::{sync::Notify, task};
use tracing::Span;

use super::{AcquireOptions, PendingRelease, options::Standing, pending_release::Part};
use crate::{
    Client, Durability, Error, Owner,
    base::{
        observe::{self, Labels},
        owner::AttemptId,
        primitive::{Grant, Primitive, Token},
        rules::Rule,
        sync::{Mutex, MutexGuard, lock},
    },
    net::CalledBy,
    protocol::{
        hold::{HoldState, LocalLease, LossCause},
        lease::Lease,
        name::Key,
        renewal::Renewal,
        server_clock::ServerClock,
        time::Moment,
        waiter::WaitStrategy,
    },
};

/// One hold: an owner, a token, and a deadline. Several guards of one owner share it. The deadline
/// is the latest of the guards' deadlines.
///
/// A client may have very many holds, so rare data is boxed.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(super) id: u64,
    pub(super) client: Client,
    pub(super) primitive: Arc<dyn Primitive>,
    pub(super) owner: Owner,
    pub(super) token: Token,
    pub(super) serial: u64,
    /// The number of the attempt that began it.
    pub(super) attempt: u64,
    /// The [`caller`] that acquired it, which may have moved the guard since.
    pub(super) acquirer: u64,
    since: Moment,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `None` if the tracing subscriber ignores the span, and before `Hold::announce`.
    span: Option<Box<Span>>,
    local_lease: LocalLease,
    /// The latest time at which the lease ends on the server, if all renewal requests have run.
    asked_until: Moment,
    shares: Shares,
    renewal: Renewal,
    /// Notifies the tasks that wait for a loss. The first of them creates it.
    changed: Option<Arc<Notify>>,
    /// Whether the loss has been reported.
    loss_reported: bool,
    /// Whether the last guard has gone.
    ended: bool,
    /// Whether the hold was granted ahead, and no renewal has been answered yet.
    unconfirmed: bool,
}

/// Returns a number for the running task, or for the thread of code that is in none, such as main.
pub(super) fn caller() -> u64 {
    let this = task::try_id().ok_or_else(|| thread::current().id());
    let mut hasher = DefaultHasher::new();
    this.hash(&mut hasher);
    hasher.finish()
}

/// An acquisition, as its caller asks for it.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) client: &'a Client,
    pub(super) options: &'a AcquireOptions,
    pub(super) owner: Owner,
    pub(super) standing: Standing,
    pub(super) lease: Lease,
}

impl<'a> Asked<'a> {
    pub(super) fn new(client: &'a Client, options: &'a AcquireOptions) -> Result<Self, Error> {
        let (owner, standing) = client.resolve(&options.owner)?;
        Ok(Self {
            client,
            options,
            owner,
            standing,
            lease: options.lease.unwrap_or_else(|| client.0.lease),
        })
    }
}

/// A grant, as its acquisition knows it.
#[derive(Debug)]
pub(super) struct Granted<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub(super) primitive: &'a Arc<dyn Primitive>,
    pub(super) grant: Grant,
    pub(super) delivered: Delivered,
    /// The time from which the lease counts, and the part of it that this process counts on.
    pub(super) lasts: (Moment, Duration),
    pub(super) ahead: Ahead,
}

/// Whether a release has made a grant, without a request of its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    No,
    /// The hold has a short lease until its holder confirms it by the first renewal.
    Yes,
}

impl Hold {
    /// Enters a grant: joins the hold that the grant names, or begins a new one.
    pub(super) fn enter(granted: &Granted<'_>, now: Moment) -> Arc<Self> {
        let Asked { client, owner, .. } = granted.asked;
        let (key, side) = (granted.primitive.key(), granted.primitive.side());
        let serial = granted.grant.serial;
        let mut table = client.holds().table();
        let present = table.get(key, owner, side);
        let (hold, older, is_new) = match present {
            Some(hold) if hold.serial == serial && hold.is_live(now) => (hold, None, false),
            older => {
                let hold = Self::begin(granted, now);
                // The reply that names an older hold may arrive last. The later hold keeps its
                // place.
                if older.as_ref().is_none_or(|older| older.serial <= serial) {
                    if let Some(older) = &older {
                        table.remove(older);
                    }
                    table.insert(&hold);
                }
                (hold, older, true)
            }
        };
        let before = hold.valid_until();
        hold.join(granted, now);
        // `lose` takes the table's lock, so unlock it first.
        drop(table);
        if is_new {
            hold.announce(now);
        }
        if hold.valid_until() > before {
            hold.tell_deadline(now);
        }
        if let Some(older) = older {
            let stale = if older.serial > serial { &hold } else { &older };
            stale.lose(LossCause::Taken);
        }
        if client.0.strategy == WaitStrategy::Notify {
            client.net().wakes.everywhere.pin();
        }
        let world = &client.net().world;
        if world.changed.is_some() && hold.has_own_key() {
            world.read_key(Some(key.as_str()));
        }
        if granted.asked.standing == Standing::Known {
            let attempt = granted.delivered.id.number();
            let local_queues = client.local_queues();
            local_queues.owner_holds(key, owner.number(), Some(attempt));
        }
        hold
    }

    fn begin(granted: &Granted<'_>, now: Moment) -> Arc<Self> {
        let Asked { client, owner, .. } = granted.asked;
        let (sent, lasts) = granted.lasts;
        let local_lease = LocalLease::new(client.0.trust, sent, lasts);
        Arc::new(Self {
            id: client.0.numbers.draw(),
            client: Client::clone(client),
            primitive: Arc::clone(granted.primitive),
            owner: owner.clone(),
            token: granted.grant.token,
            serial: granted.grant.serial,
            attempt: granted.delivered.id.number(),
            acquirer: caller(),
            since: match granted.ahead {
                Ahead::No => sent,
                Ahead::Yes => now,
            },
            inner: Mutex::new(Inner {
                span: None,
                local_lease,
                asked_until: sent + client.lease_on_server(lasts) + ServerClock::REACH,
                shares: Shares::new(),
                renewal: Renewal::Never,
                changed: None,
                loss_reported: false,
                ended: false,
                unconfirmed: granted.ahead == Ahead::Yes,
            }),
        })
    }

    /// Begins the span and the metrics of a new hold.
    fn announce(&self, now: Moment) {
        let primitive = self.primitive.as_ref();
        observe::begun(primitive);
        let remaining = self.valid_until() - now;
        let span = observe::hold_span(primitive, &self.owner, &self.token, remaining);
        if !span.is_none() {
            self.inner().span = Some(Box::new(span));
        }
    }

    /// Returns the span. No lock is held while the span is used, since a subscriber may call back.
    fn span(&self) -> Option<Span> {
        self.inner().span.as_deref().cloned()
    }

    fn join(self: &Arc<Self>, granted: &Granted<'_>, now: Moment) {
        let (options, delivered) = (granted.asked.options, &granted.delivered);
        let terms = Terms {
            until: options.max_hold.map_or(USUAL.until, |max| now + max),
            copies: delivered.copies.clone(),
            durability: options.durability,
            ..USUAL
        };
        let share = Share::new(delivered.id.number(), granted.asked.lease, terms);
        let (trust, mut inner) = (self.client.0.trust, self.inner());
        let (sent, lasts) = granted.lasts;
        inner.local_lease.extended(trust, sent, lasts, now);
        inner.shares.push(share);
        self.reschedule(&mut inner, now);
    }

    /// Tells whether the key is in the layout of this family, and changes with this hold and its
    /// waiters alone.
    pub(super) fn has_own_key(&self) -> bool {
        let key = self.primitive.key().as_str();
        !self.primitive.names_attempts() && Key::decode(&self.client.0.prefix, key).is_some()
    }

    pub(crate) fn labels(&self) -> Labels {
        Labels::of(self.primitive.as_ref())
    }

    /// Returns the number of guards in this process.
    pub(crate) fn guards(&self) -> usize {
        self.inner().shares.as_slice().len()
    }

    pub(crate) fn valid_until(&self) -> Moment {
        self.inner().local_lease.valid_until()
    }

    /// Returns the time, by this client's clock, at which the lease has certainly ended on the
    /// server. It allows for renewals whose replies were lost, and for a new master whose clock is
    /// behind.
    fn over_by(&self, inner: &Inner) -> Moment {
        let asked = inner.asked_until.max(inner.local_lease.valid_until());
        let margin = self.client.0.trust.margin(asked - self.since);
        asked + self.client.lease_on_server(margin * 2)
    }

    pub(crate) fn state(&self, now: Moment) -> HoldState {
        let state = self.inner().local_lease.state(now);
        self.tell(state)
    }

    /// Removes the guard of `attempt`.
    pub(super) fn leave(self: &Arc<Self>, attempt: u64, now: Moment) {
        // Report a loss that nothing has detected yet.
        self.state(now);
        let mut table = self.client.holds().table();
        let mut inner = self.inner();
        inner.shares.remove(attempt);
        let last = inner.shares.as_slice().is_empty();
        inner.ended |= last;
        self.reschedule(&mut inner, now);
        if !self.client.keeps(Rule::RenewForEach) {
            self.unschedule(&mut inner);
        }
        drop(inner);
        let removed = last && table.remove(self);
        drop(table);
        if removed {
            self.release_reentrants();
        }
        if last {
            observe::ended(
                &self.labels(),
                self.span().as_ref(),
                now - self.since,
                self.loss(),
            );
            self.tell_change();
            self.client.0.quieter.notify_waiters();
        }
    }

    /// Queues the release of all guards that are still alive. The guards learn of it by their
    /// state.
    pub(crate) fn part_all(self: &Arc<Self>) {
        let shares = self.inner().shares.as_slice().to_vec();
        for share in shares {
            self.client
                .enqueue_release(self.pending_release(share.attempt, 0));
        }
    }

    /// Returns the release after which `left` units of `attempt` remain on the server.
    pub(super) fn pending_release(&self, attempt: u64, left: u32) -> PendingRelease {
        let inner = self.inner();
        let terms = inner.shares.get(attempt).map_or(&USUAL, Share::terms);
        let copies = terms.copies.as_deref();
        PendingRelease {
            primitive: Arc::clone(&self.primitive),
            owner: self.owner.clone(),
            attempt: AttemptId::of(&self.owner, attempt),
            part: (!terms.withheld).then_some(Part {
                token: self.token,
                serial: self.serial,
                left,
                forgotten: terms.forgotten,
            }),
            void_by: copies.map(|copies| copies.act_before),
            copies: copies.is_some(),
            called_by: copies.and_then(|copies| copies.called_by.clone()),
            next_waiter: None,
            give_up_at: self.over_by(&inner),
        }
    }

    /// Records that `units` of `attempt` are permanently gone.
    pub(super) fn forget(&self, attempt: u64, units: u32) {
        if let Some(share) = self.inner().shares.get_mut(attempt) {
            share.terms_mut().forgotten += units;
        }
    }

    /// Records whether the release of the guard of `attempt` is an undo.
    pub(super) fn withhold(&self, attempt: u64, withheld: bool) {
        if let Some(share) = self.inner().shares.get_mut(attempt) {
            share.terms_mut().withheld = withheld;
        }
    }

    /// Returns the last server time at which a copy of `attempt` may act, if copies may be in
    /// flight.
    pub(super) fn void_by(&self, attempt: u64) -> Option<u64> {
        let inner = self.inner();
        let copies = inner.shares.get(attempt)?.terms().copies.as_ref()?;
        Some(copies.act_before)
    }

    /// Returns the lease that the guard of `attempt` was acquired with.
    pub(super) fn lease(&self, attempt: u64) -> Option<Lease> {
        let inner = self.inner();
        Some(inner.shares.get(attempt)?.lease)
    }

    fn is_live(&self, now: Moment) -> bool {
        let mut inner = self.inner();
        !inner.ended && !matches!(inner.local_lease.state(now), HoldState::Lost(_))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// The state of a delivered attempt's requests.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    pub(super) id: AttemptId,
    /// Boxed, since nearly no attempt has copies.
    pub(super) copies: Option<Box<Copies>>,
}

/// Requests of an attempt that may still act.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    /// The last server time at which the copies may act.
    pub(super) act_before: u64,
    /// How a waiter is notified that a copy may register after the hold has ended. `None` if copies
    /// do not register.
    pub(super) called_by: Option<Box<CalledBy>>,
}

/// The share of one guard in its hold.
#[derive(Clone, Debug)]
struct Share {
    /// The number of the attempt that acquired it.
    attempt: u64,
    /// The lease that it was acquired with.
    lease: Lease,
    /// Boxed; `None` for the default terms.
    terms: Option<Box<Terms>>,
}

/// The terms of a guard besides its lease.
#[derive(Clone, Debug)]
struct Terms {
    /// The time until which the watchdog renews its lease.
    until: Moment,
    copies: Option<Box<Copies>>,
    /// The durability that a renewal needs before it counts.
    durability: Durability,
    /// The number of its units that are permanently gone.
    forgotten: u32,
    /// Whether the caller does not have the guard yet, so that its release is an undo.
    withheld: bool,
}

/// The default terms.
static USUAL: Terms = Terms {
    until: Moment::FAR_FUTURE,
    copies: None,
    durability: Durability::Master,
    forgotten: 0,
    withheld: false,
};

impl Share {
    fn new(attempt: u64, lease: Lease, terms: Terms) -> Self {
        let usual = terms.until == USUAL.until
            && terms.copies.is_none()
            && terms.durability == USUAL.durability;
        Self {
            attempt,
            lease,
            terms: (!usual).then(|| Box::new(terms)),
        }
    }

    fn terms(&self) -> &Terms {
        self.terms.as_deref().unwrap_or(&USUAL)
    }

    /// Returns the lease that the watchdog renews for it at `now`, if any.
    fn renewing(&self, now: Moment) -> Option<Duration> {
        let renewing = self.lease.is_renewed() && now < self.terms().until;
        renewing.then(|| self.lease.span())
    }

    /// Returns its terms for a change.
    fn terms_mut(&mut self) -> &mut Terms {
        self.terms.get_or_insert_with(|| Box::new(USUAL.clone()))
    }
}

/// One share for each guard.
#[derive(Debug)]
enum Shares {
    /// Nearly every hold has one guard.
    One(Share),
    Many(Vec<Share>),
}

impl Shares {
    const fn new() -> Self {
        Self::Many(Vec::new())
    }

    fn push(&mut self, share: Share) {
        match std::mem::replace(self, Self::new()) {
            Self::One(first) => *self = Self::Many(vec![first, share]),
            Self::Many(shares) if shares.is_empty() => *self = Self::One(share),
            Self::Many(mut shares) => {
                shares.push(share);
                *self = Self::Many(shares);
            }
        }
    }

    /// Removes the share of `attempt`.
    fn remove(&mut self, attempt: u64) {
        match self {
            Self::One(share) if share.attempt == attempt => *self = Self::new(),
            Self::One(_) => {}
            Self::Many(shares) => shares.retain(|share| share.attempt != attempt),
        }
    }

    fn get(&self, attempt: u64) -> Option<&Share> {
        let mut shares = self.as_slice().iter();
        shares.find(|share| share.attempt == attempt)
    }

    fn get_mut(&mut self, attempt: u64) -> Option<&mut Share> {
        let shares = match self {
            Self::One(share) => slice::from_mut(share),
            Self::Many(shares) => shares.as_mut_slice(),
        };
        shares.iter_mut().find(|share| share.attempt == attempt)
    }

    fn as_slice(&self) -> &[Share] {
        match self {
            Self::One(share) => slice::from_ref(share),
            Self::Many(shares) => shares,
        }
    }
}
