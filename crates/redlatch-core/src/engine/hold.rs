//! A hold as this process knows it. All guards of the hold share it.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use tokio::{select, sync::Notify};
use tracing::Span;

use super::{
    PendingRelease,
    attempt::Delivered,
    shares::{Share, Shares, Terms},
};
use crate::{
    Client, Durability, Owner,
    base::{
        observe::{self, Labels},
        owner::AttemptId,
        primitive::{Primitive, RenewRequest, Token},
        rules::Rule,
        script::ScriptCall,
        sync::lock,
    },
    protocol::{
        hold::{HoldState, LocalLease, LossCause},
        lease::Lease,
        renewal::Renewal,
        server_clock::ServerClock,
        time::Moment,
    },
};

/// One hold: an owner, a token, and a deadline. Several guards of one owner share it. The deadline
/// is the latest of the guards' deadlines.
///
/// A client may have very many holds, so rare data is boxed.
#[derive(Debug)]
pub(crate) struct Hold {
    id: u64,
    client: Client,
    primitive: Arc<dyn Primitive>,
    owner: Owner,
    token: Token,
    serial: u64,
    /// The number of the attempt that acquired it.
    attempt: u64,
    since: Moment,
    /// `None` if the tracing subscriber ignores the span.
    span: Option<Box<Span>>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    local_lease: LocalLease,
    /// The latest time at which the lease ends on the server, if all renewal requests have run.
    asked_until: Moment,
    shares: Shares,
    renewal: Renewal,
    /// Notifies the tasks that wait for a loss. The first of them creates it.
    changed: Option<Arc<Notify>>,
    /// Whether the loss has been reported.
    told: bool,
    /// Whether the last guard has gone.
    ended: bool,
}

/// A grant, as its acquisition knows it.
#[derive(Debug)]
pub(super) struct Granted<'a> {
    pub(super) primitive: &'a Arc<dyn Primitive>,
    pub(super) owner: &'a Owner,
    pub(super) token: Token,
    pub(super) serial: u64,
    pub(super) delivered: &'a Delivered,
    pub(super) lease: Lease,
    /// The lease that this process counts on.
    pub(super) span: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) durability: Durability,
    /// The time at which the request was sent.
    pub(super) sent: Moment,
}

impl Hold {
    /// Enters a grant: joins the hold that the grant names, or begins a new one.
    pub(super) fn enter(client: &Client, granted: &Granted<'_>, now: Moment) -> Arc<Self> {
        let (key, side) = (granted.primitive.key(), granted.primitive.side());
        let mut table = client.holds().table();
        let present = table.get(key, granted.owner, side);
        let (hold, older) = match present {
            Some(hold) if hold.serial == granted.serial && hold.is_live(now) => (hold, None),
            older => {
                let hold = Self::begin(client, granted);
                // The reply that names an older hold may arrive last. The later hold keeps its
                // place.
                if older
                    .as_ref()
                    .is_none_or(|older| older.serial <= granted.serial)
                {
                    if let Some(older) = &older {
                        table.remove(older);
                    }
                    table.insert(&hold);
                }
                (hold, older)
            }
        };
        hold.join(granted, now);
        // `lose` takes the table's lock, so unlock it first.
        drop(table);
        if let Some(older) = older {
            let stale = if older.serial > granted.serial {
                &hold
            } else {
                &older
            };
            stale.lose(LossCause::Taken);
        }
        let attempt = granted.delivered.id.number();
        let local_queues = client.local_queues();
        local_queues.owner_holds(key, granted.owner.number(), Some(attempt));
        hold
    }

    fn begin(client: &Client, granted: &Granted<'_>) -> Arc<Self> {
        let local_lease = LocalLease::new(client.trust(), granted.sent, granted.span);
        let span = observe::hold_span(granted.primitive.as_ref(), granted.owner, &granted.token);
        Arc::new(Self {
            id: client.numbers().draw(),
            client: client.clone(),
            primitive: Arc::clone(granted.primitive),
            owner: granted.owner.clone(),
            token: granted.token,
            serial: granted.serial,
            attempt: granted.delivered.id.number(),
            since: granted.sent,
            span: (!span.is_none()).then(|| Box::new(span)),
            inner: Mutex::new(Inner {
                local_lease,
                asked_until: granted.sent
                    + client.lease_on_server(granted.span)
                    + ServerClock::REACH,
                shares: Shares::new(),
                renewal: Renewal::Never,
                changed: None,
                told: false,
                ended: false,
            }),
        })
    }

    fn join(self: &Arc<Self>, granted: &Granted<'_>, now: Moment) {
        let terms = Terms {
            until: granted.max_hold.map_or(Moment::FAR_FUTURE, |max| now + max),
            copies: granted.delivered.copies.clone(),
            durability: granted.durability,
            forgotten: 0,
        };
        let share = Share::new(granted.delivered.id.number(), granted.lease, terms);
        let (trust, mut inner) = (self.client.trust(), self.inner());
        let local_lease = &mut inner.local_lease;
        local_lease.extended(trust, granted.sent, granted.span, now);
        inner.shares.push(share);
        self.reschedule(&mut inner, now);
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) const fn primitive(&self) -> &Arc<dyn Primitive> {
        &self.primitive
    }

    pub(crate) const fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(crate) const fn token(&self) -> Token {
        self.token
    }

    pub(crate) const fn serial(&self) -> u64 {
        self.serial
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
        let margin = self.client.trust().margin(asked - self.since);
        asked + self.client.lease_on_server(margin * 2)
    }

    /// Returns how long the hold can be relied on if nothing renews it; zero after a loss.
    pub(super) fn remaining(&self, now: Moment) -> Duration {
        let mut inner = self.inner();
        let (state, valid_until) = (
            inner.local_lease.state(now),
            inner.local_lease.valid_until(),
        );
        drop(inner);
        match self.tell(state) {
            HoldState::Lost(_) => Duration::ZERO,
            HoldState::Held | HoldState::Unknown => valid_until - now,
        }
    }

    pub(crate) fn state(&self, now: Moment) -> HoldState {
        let state = self.inner().local_lease.state(now);
        self.tell(state)
    }

    /// Resolves when the hold is lost, at the latest by this client's clock. Never resolves after
    /// the last guard has gone. Does not keep the hold alive.
    pub(crate) fn lost(
        self: &Arc<Self>,
    ) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        let changed = Arc::clone(self.inner().changed.get_or_insert_default());
        let hold = Arc::downgrade(self);
        let alarms = Arc::clone(self.client.net().world.alarms());
        let life = Arc::clone(&self.client.net().world.life);
        async move {
            loop {
                if life.is_forked() {
                    return LossCause::Forked;
                }
                let mut changed = pin!(changed.notified());
                // From here on, no notification is missed.
                changed.as_mut().enable();
                let look_at = match Self::look(&hold, alarms.now()) {
                    Look::Lost(cause) => return cause,
                    Look::At(moment) => moment,
                    Look::Ended => return std::future::pending().await,
                };
                select! {
                    biased;
                    () = changed => {}
                    () = alarms.at(look_at) => {}
                }
            }
        }
    }

    fn look(hold: &Weak<Self>, now: Moment) -> Look {
        let Some(hold) = hold.upgrade() else {
            return Look::Ended;
        };
        let state = hold.state(now);
        let inner = hold.inner();
        match state {
            _ if inner.ended => Look::Ended,
            HoldState::Lost(cause) => Look::Lost(cause),
            _ if !hold.client.keeps(Rule::TellByClock) => Look::At(Moment::FAR_FUTURE),
            HoldState::Held | HoldState::Unknown => Look::At(inner.local_lease.tell_at()),
        }
    }

    /// Records that the server reports the end of the hold. Nothing renews it any more.
    pub(super) fn over(&self, cause: LossCause) {
        self.unschedule(&mut self.inner());
        self.lose(cause);
    }

    /// Ends the local lease of this hold.
    pub(crate) fn lose(&self, cause: LossCause) {
        let state = self.inner().local_lease.lose(cause, self.client.now());
        self.tell(state);
    }

    /// Records that a request sent at `sent` has set the lease to `span`.
    pub(crate) fn extended(&self, sent: Moment, span: Duration) -> HoldState {
        let now = self.client.now();
        let mut inner = self.inner();
        if !self.client.keeps(Rule::LatchLoss) {
            inner.local_lease = LocalLease::new(self.client.trust(), sent, span);
        }
        let state = inner
            .local_lease
            .extended(self.client.trust(), sent, span, now);
        drop(inner);
        self.tell(state)
    }

    /// Begins the renewal that was due at `at`. Returns the hold's deadline, and whether replicas
    /// have to confirm the renewal. Returns `None` if that renewal is no longer scheduled.
    pub(super) fn due(&self, at: Moment) -> Option<(Moment, bool)> {
        let mut inner = self.inner();
        let begins = inner.renewal.begin(at);
        begins.then(|| (inner.local_lease.valid_until(), inner.is_durable()))
    }

    /// Records that the renewal sent at `sent` has set the lease to `span`, where `lease` was
    /// requested.
    pub(super) fn renewed(self: &Arc<Self>, sent: Moment, span: Duration, lease: Duration) {
        self.extended(sent, span);
        let watchdog = self.client.watchdog();
        watchdog.renewed(self, &mut self.inner().renewal, lease, sent);
    }

    /// Records that the renewal had no clear answer. The next renewal is scheduled sooner.
    pub(super) fn not_renewed(self: &Arc<Self>) {
        self.troubled();
        let watchdog = self.client.watchdog();
        watchdog.failed(self, &mut self.inner().renewal);
    }

    /// Records that a renewal had no clear answer.
    pub(crate) fn troubled(&self) -> HoldState {
        let state = self.inner().local_lease.troubled(self.client.now());
        self.tell(state)
    }

    /// Builds the call that sets the lease to `span`, as the holder counts it.
    pub(crate) fn renewal(&self, span: Duration) -> ScriptCall {
        let asked_until =
            self.client.now() + self.client.lease_on_server(span) + ServerClock::REACH;
        {
            let mut inner = self.inner();
            inner.asked_until = inner.asked_until.max(asked_until);
        }
        self.primitive.renew(&RenewRequest {
            owner: &self.owner,
            token: self.token,
            serial: self.serial,
            attempt: &AttemptId::of(&self.owner, self.attempt),
            lease: self.client.lease_on_server(span),
            retention: self.client.retention(),
        })
    }

    /// Returns the lease that the watchdog has to renew at `now`: the longest that any guard
    /// requests, while the hold lasts. If there is none, removes the hold from the watchdog's
    /// table. Both happen under one lock: otherwise a guard that joins in between would assume that
    /// the hold is in the table.
    pub(super) fn renewing_or_unscheduled(&self, now: Moment) -> Option<Duration> {
        let mut inner = self.inner();
        let renewing = inner.renewing(now);
        if renewing.is_none() {
            self.unschedule(&mut inner);
        }
        renewing
    }

    /// Tells whether replicas have to confirm renewals.
    pub(super) fn is_durable(&self) -> bool {
        let inner = self.inner();
        inner.is_durable()
    }

    /// Returns how many of `replicas` have to confirm a renewal: the maximum over all guards.
    pub(super) fn needs(&self, replicas: u32) -> u32 {
        let inner = self.inner();
        let shares = inner.shares.as_slice().iter();
        let needs = shares.map(|share| share.durability().needs(replicas));
        needs.max().unwrap_or(0)
    }

    /// Removes the guard of `attempt`.
    pub(super) fn leave(self: &Arc<Self>, attempt: u64) {
        let now = self.client.now();
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
                self.span.as_deref(),
                now - self.since,
                self.loss(),
            );
            self.tell_change();
            self.client.quieter();
        }
    }

    /// Queues the release of all guards that are still alive. The guards learn of it by their
    /// state.
    pub(crate) fn part_all(self: &Arc<Self>) {
        let shares = self.inner().shares.as_slice().to_vec();
        for share in shares {
            self.client
                .enqueue_release(self.pending_release(share.attempt));
        }
    }

    /// Returns the release that ends `attempt` of this hold on the server.
    pub(super) fn pending_release(&self, attempt: u64) -> PendingRelease {
        let inner = self.inner();
        let share = inner.shares.get(attempt);
        let copies = share.and_then(Share::copies);
        PendingRelease {
            primitive: Arc::clone(&self.primitive),
            owner: self.owner.clone(),
            attempt: AttemptId::of(&self.owner, attempt),
            token: Some(self.token),
            serial: Some(self.serial),
            void_by: copies.map(|copies| copies.act_before),
            address: copies.map_or_else(String::new, |copies| copies.address.clone()),
            undo: false,
            left: 0,
            forgotten: share.map_or(0, Share::forgotten),
            next_waiter: None,
            give_up_at: self.over_by(&inner),
        }
    }

    /// Sets the total number of units of `attempt` that are permanently gone.
    pub(super) fn forget(&self, attempt: u64, forgotten: u32) {
        if let Some(share) = self.inner().shares.get_mut(attempt) {
            share.forget(forgotten);
        }
    }

    /// Returns the last server time at which a copy of `attempt` may act, if copies may be in
    /// flight.
    pub(super) fn void_by(&self, attempt: u64) -> Option<u64> {
        let inner = self.inner();
        let copies = inner.shares.get(attempt)?.copies()?;
        Some(copies.act_before)
    }

    /// Returns the lease that the guard of `attempt` was acquired with.
    pub(super) fn lease(&self, attempt: u64) -> Option<Lease> {
        let inner = self.inner();
        Some(inner.shares.get(attempt)?.lease)
    }

    /// Updates the watchdog's table to the lease that the guards request. A scheduled renewal stays
    /// unless the lease differs.
    fn reschedule(self: &Arc<Self>, inner: &mut Inner, now: Moment) {
        let wanted = inner
            .renewing(now)
            .filter(|_| self.client.keeps(Rule::Renew));
        match wanted {
            Some(lease) if inner.renewal.lease() != wanted => {
                let watchdog = self.client.watchdog();
                watchdog.insert(self, &mut inner.renewal, lease);
            }
            Some(_) => {}
            None => self.unschedule(inner),
        }
    }

    fn unschedule(&self, inner: &mut Inner) {
        self.client.watchdog().remove(self, &mut inner.renewal);
    }

    fn is_live(&self, now: Moment) -> bool {
        let mut inner = self.inner();
        !inner.ended && !matches!(inner.local_lease.state(now), HoldState::Lost(_))
    }

    /// Returns why the hold was lost, if it was.
    fn loss(&self) -> Option<LossCause> {
        match self.inner().local_lease.state(self.client.now()) {
            HoldState::Lost(cause) => Some(cause),
            HoldState::Held | HoldState::Unknown => None,
        }
    }

    /// Reports a loss once, unless the last guard has gone. Returns `state`.
    fn tell(&self, state: HoldState) -> HoldState {
        let HoldState::Lost(cause) = state else {
            return state;
        };
        let mut inner = self.inner();
        if inner.ended || std::mem::replace(&mut inner.told, true) {
            return state;
        }
        // While the guards of a closing client finish their work, no other owner may get the name.
        if cause != LossCause::Closed {
            self.unschedule(&mut inner);
        }
        drop(inner);
        let removed = self.client.holds().table().remove(self);
        if removed {
            self.release_reentrants();
        }
        self.tell_change();
        observe::lost(
            &self.labels(),
            self.primitive.name(),
            &self.owner,
            &self.token,
            cause,
        );
        state
    }

    fn tell_change(&self) {
        let changed = self.inner().changed.clone();
        if let Some(changed) = changed {
            changed.notify_waiters();
        }
    }

    /// Makes the owner's waiters queue like all others again, unless the owner holds another side.
    fn release_reentrants(&self) {
        let (key, local_queues) = (self.primitive.key(), self.client.local_queues());
        // In most cases no local waiter exists.
        if local_queues.has(key)
            && !self
                .client
                .holds()
                .held(key, &self.owner, self.client.now())
        {
            local_queues.owner_released(key, self.owner.number());
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Inner {
    fn renewing(&mut self, now: Moment) -> Option<Duration> {
        if let HoldState::Lost(cause) = self.local_lease.state(now)
            && cause != LossCause::Closed
        {
            return None;
        }
        let shares = self.shares.as_slice().iter();
        shares.filter_map(|share| share.renewing(now)).max()
    }

    fn is_durable(&self) -> bool {
        let mut shares = self.shares.as_slice().iter();
        shares.any(|share| share.durability().waits())
    }
}

/// The result of a check for a loss.
enum Look {
    Lost(LossCause),
    /// The hold is not lost; check again at this time.
    At(Moment),
    /// The last guard has gone. Nothing can be lost any more.
    Ended,
}
