//! A hold as this process knows it, shared by all its guards.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use tokio::{select, sync::Notify};
use tracing::Span;

use super::{
    Parting,
    attempt::{Copies, Delivered},
};
use crate::{
    Client, Durability, Owner,
    observe::{self, Labels},
    owner::AttemptId,
    primitive::{Primitive, RenewRequest, Side, Token},
    protocol::{
        hold::{Belief, HoldState, LossCause},
        lease::Lease,
        name::Key,
        server_clock::ServerClock,
        time::Moment,
    },
    rules::Rule,
    script::ScriptCall,
    seam::Runtime,
};

/// One hold: an owner, a token, a deadline. Several guards of one owner share it; the deadline is the latest of theirs.
#[derive(Debug)]
pub(crate) struct Hold {
    id: u64,
    client: Client,
    primitive: Arc<dyn Primitive>,
    owner: Owner,
    token: Token,
    serial: u64,
    /// The number of the attempt by which it was taken.
    attempt: u64,
    since: Moment,
    span: Span,
    inner: Mutex<Inner>,
    /// Tells who waits for a loss; made by the first of them.
    changed: OnceLock<Arc<Notify>>,
}

#[derive(Debug)]
struct Inner {
    belief: Belief,
    /// One for each guard. Nearly every hold has one.
    shares: Vec<Share>,
    /// The lease that the watchdog keeps up.
    scheduled: Option<Duration>,
    /// The loss has been told.
    told: bool,
    /// The last guard has gone.
    ended: bool,
}

/// What one guard has of the hold.
#[derive(Clone, Debug)]
struct Share {
    /// The number of its attempt.
    attempt: u64,
    /// The lease that the watchdog keeps up for it, if any, and until when.
    renewing: Option<Duration>,
    until: Moment,
    copies: Option<Box<Copies>>,
    /// Who has to have a renewal before it counts.
    durability: Durability,
    /// Units of it that are gone for good.
    forgotten: u32,
}

/// The live holds of a client, for re-entry. Whoever comes to a hold or leaves it does so under this lock; a hold's own lock is taken
/// inside of it and never around it.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    table: Mutex<BTreeMap<Slot, Weak<Hold>>>,
}

/// Where a hold has its place: an object, an owner, a side.
type Slot = (Key, u64, Side);

type Table<'a> = MutexGuard<'a, BTreeMap<Slot, Weak<Hold>>>;

impl Holds {
    /// Tells whether `owner` holds `key` on any side, as far as this process knows.
    pub(crate) fn held(&self, key: &Key, owner: &Owner, now: Moment) -> bool {
        let holds = [Side::Exclusive, Side::Shared].map(|side| {
            let slot = (key.clone(), owner.number(), side);
            self.table().get(&slot).and_then(Weak::upgrade)
        });
        let mut holds = holds.into_iter().flatten();
        holds.any(|hold| !matches!(hold.state(now), HoldState::Lost(_)))
    }

    /// Returns the hold of `key` with this serial, if it is one of ours.
    fn with_serial(&self, key: &Key, side: Side, serial: u64) -> Option<Arc<Hold>> {
        let table = self.table();
        let first = (key.clone(), 0, Side::Exclusive);
        let of_key = table.range(first..=(key.clone(), u64::MAX, Side::Shared));
        of_key
            .filter(|((_, _, other), _)| *other == side)
            .filter_map(|(_, hold)| hold.upgrade())
            .find(|hold| hold.serial == serial)
    }

    /// The hold of `key` with this serial was ended by force.
    pub(crate) fn revoked(&self, key: &Key, side: Side, serial: u64) {
        if let Some(hold) = self.with_serial(key, side, serial) {
            hold.lose(LossCause::Revoked);
        }
    }

    /// Returns the number of holds.
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }

    /// Returns all holds.
    pub(crate) fn all(&self) -> Vec<Weak<Hold>> {
        self.table().values().cloned().collect()
    }

    fn table(&self) -> Table<'_> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A grant as its acquisition knows it.
#[derive(Debug)]
pub(super) struct Granted<'a> {
    pub(super) primitive: &'a Arc<dyn Primitive>,
    pub(super) owner: &'a Owner,
    pub(super) token: Token,
    pub(super) serial: u64,
    pub(super) delivered: &'a Delivered,
    pub(super) lease: Lease,
    /// How long the server lets it last.
    pub(super) span: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) durability: Durability,
    /// When the request was sent.
    pub(super) sent: Moment,
}

impl Hold {
    /// Takes a grant in: joins the hold that it names, or begins it.
    pub(super) fn enter(client: &Client, granted: &Granted<'_>, now: Moment) -> Arc<Self> {
        let key = slot(granted.primitive.as_ref(), granted.owner);
        let mut table = client.holds().table();
        let present = table.get(&key).and_then(Weak::upgrade);
        let (hold, older) = match present {
            Some(hold) if hold.serial == granted.serial && hold.is_live(now) => (hold, None),
            older => {
                let hold = Self::begin(client, granted);
                // The answer of an older hold may come last; the later one keeps its place.
                if older
                    .as_ref()
                    .is_none_or(|older| older.serial <= granted.serial)
                {
                    table.insert(key, Arc::downgrade(&hold));
                }
                (hold, older)
            }
        };
        hold.join(granted, now);
        drop(table);
        if let Some(older) = older {
            let stale = if older.serial > granted.serial {
                &hold
            } else {
                &older
            };
            stale.lose(LossCause::Taken);
        }
        client
            .turns()
            .excuse(granted.primitive.key(), granted.owner.number());
        hold
    }

    fn begin(client: &Client, granted: &Granted<'_>) -> Arc<Self> {
        let belief = Belief::new(client.trust(), granted.sent, granted.span);
        Arc::new(Self {
            id: client.numbers().draw(),
            client: client.clone(),
            primitive: Arc::clone(granted.primitive),
            owner: granted.owner.clone(),
            token: granted.token,
            serial: granted.serial,
            attempt: granted.delivered.id.number(),
            since: granted.sent,
            span: observe::hold_span(granted.primitive.as_ref(), granted.owner, &granted.token),
            inner: Mutex::new(Inner {
                belief,
                shares: Vec::with_capacity(1),
                scheduled: None,
                told: false,
                ended: false,
            }),
            changed: OnceLock::new(),
        })
    }

    fn join(self: &Arc<Self>, granted: &Granted<'_>, now: Moment) {
        let span = granted.lease.span();
        let share = Share {
            attempt: granted.delivered.id.number(),
            renewing: granted.lease.is_renewed().then_some(span),
            until: granted.max_hold.map_or(Moment::FAR_FUTURE, |max| now + max),
            copies: granted.delivered.copies.clone(),
            durability: granted.durability,
            forgotten: 0,
        };
        let mut inner = self.inner();
        inner.belief.extended(granted.sent, granted.span, now);
        inner.shares.push(share);
        self.reschedule(&mut inner, now);
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
        self.inner().shares.len()
    }

    pub(crate) fn valid_until(&self) -> Moment {
        self.inner().belief.valid_until()
    }

    /// Returns when, by our clock, the lease has surely ended on the server.
    pub(super) fn over_by(&self) -> Moment {
        let valid_until = self.valid_until();
        let margin = self.client.trust().margin(valid_until - self.since);
        valid_until + margin * 2 + ServerClock::REACH
    }

    pub(crate) fn state(&self, now: Moment) -> HoldState {
        let state = self.inner().belief.state(now);
        self.tell(state)
    }

    /// Resolves when the hold is lost, by its own clock if by nothing else; never once its last guard has gone. Does not keep it alive.
    pub(crate) fn lost(
        self: &Arc<Self>,
    ) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        let changed = self.changed.get_or_init(Arc::default);
        let (hold, changed) = (Arc::downgrade(self), Arc::clone(changed));
        let runtime = Arc::clone(self.client.runtime());
        async move {
            loop {
                let mut changed = pin!(changed.notified());
                // From here on no change is missed.
                changed.as_mut().enable();
                let look_at = match Self::look(&hold, &runtime) {
                    Look::Lost(cause) => return cause,
                    Look::At(moment) => moment,
                    Look::Ended => return std::future::pending().await,
                };
                select! {
                    biased;
                    () = changed => {}
                    () = runtime.sleep_until(look_at) => {}
                }
            }
        }
    }

    fn look(hold: &Weak<Self>, runtime: &Arc<dyn Runtime>) -> Look {
        let Some(hold) = hold.upgrade() else {
            return Look::Ended;
        };
        let state = hold.state(runtime.now());
        let inner = hold.inner();
        match state {
            _ if inner.ended => Look::Ended,
            HoldState::Lost(cause) => Look::Lost(cause),
            _ if !hold.client.keeps(Rule::TellByClock) => Look::At(Moment::FAR_FUTURE),
            HoldState::Held | HoldState::Unknown => Look::At(inner.belief.tell_at()),
        }
    }

    /// Ends the belief in this hold.
    pub(crate) fn lose(&self, cause: LossCause) {
        let state = self.inner().belief.lose(cause, self.client.now());
        self.tell(state);
    }

    /// A request sent at `sent` has set the lease to `span`.
    pub(crate) fn extended(&self, sent: Moment, span: Duration) -> HoldState {
        let now = self.client.now();
        let mut inner = self.inner();
        if !self.client.keeps(Rule::LatchLoss) {
            inner.belief = Belief::new(self.client.trust(), sent, span);
        }
        let state = inner.belief.extended(sent, span, now);
        drop(inner);
        self.tell(state)
    }

    /// A renewal had no clear answer.
    pub(crate) fn troubled(&self) -> HoldState {
        let state = self.inner().belief.troubled(self.client.now());
        self.tell(state)
    }

    /// Returns the call that sets the lease to `span`.
    pub(crate) fn renewal(&self, span: Duration) -> ScriptCall {
        self.primitive.renew(&RenewRequest {
            owner: &self.owner,
            token: self.token,
            serial: self.serial,
            attempt: &AttemptId::of(&self.owner, self.attempt),
            lease: span,
            retention: self.client.retention(),
        })
    }

    /// Returns the lease that the watchdog is to keep up at `now`: the longest that any guard wants, while the hold lasts. If there is none, takes the hold
    /// off the watchdog's table, in one step: a guard that joins meanwhile would believe that it is there.
    pub(super) fn renewing_or_unscheduled(&self, now: Moment) -> Option<Duration> {
        let mut inner = self.inner();
        let renewing = inner.renewing(now);
        if renewing.is_none() {
            inner.scheduled = None;
            self.client.watchdog().remove(self.id);
        }
        renewing
    }

    /// Tells whether replicas have to know of renewals.
    pub(super) fn is_durable(&self) -> bool {
        let inner = self.inner();
        inner.shares.iter().any(|share| share.durability.waits())
    }

    /// Returns how many of `replicas` have to know of a renewal: as many as the guard needs that needs the most.
    pub(super) fn needs(&self, replicas: u32) -> u32 {
        let inner = self.inner();
        let shares = inner.shares.iter();
        let needs = shares.map(|share| share.durability.needs(replicas));
        needs.max().unwrap_or(0)
    }

    /// The guard of `attempt` goes.
    pub(super) fn leave(self: &Arc<Self>, attempt: u64) {
        let now = self.client.now();
        // A loss that nobody has looked at yet is told.
        self.state(now);
        let mut table = self.client.holds().table();
        let mut inner = self.inner();
        inner.shares.retain(|share| share.attempt != attempt);
        let last = inner.shares.is_empty();
        inner.ended |= last;
        self.reschedule(&mut inner, now);
        drop(inner);
        if !self.client.keeps(Rule::RenewForEach) {
            self.client.watchdog().remove(self.id);
        }
        let removed = last && self.take_out(&mut table);
        drop(table);
        if removed {
            self.unexcuse();
        }
        if last {
            observe::ended(&self.labels(), &self.span, now - self.since, self.loss());
            self.tell_change();
            self.client.quieter();
        }
    }

    /// Ends on the server what guards that are still alive hold. They find out by their state.
    pub(crate) fn part_all(self: &Arc<Self>) {
        let shares = self.inner().shares.clone();
        for share in shares {
            let attempt = AttemptId::of(&self.owner, share.attempt);
            self.client
                .part(self.parting(attempt, share.copies.as_deref()));
        }
    }

    /// Returns what ends `attempt` of this hold on the server.
    pub(super) fn parting(&self, attempt: AttemptId, copies: Option<&Copies>) -> Parting {
        let number = attempt.number();
        Parting {
            primitive: Arc::clone(&self.primitive),
            owner: self.owner.clone(),
            attempt,
            token: Some(self.token),
            serial: Some(self.serial),
            void_by: copies.map(|copies| copies.by),
            address: copies.map_or_else(String::new, |copies| copies.address.clone()),
            undo: false,
            left: 0,
            forgotten: self.forgotten(number),
            successor: None,
            give_up_at: self.over_by(),
        }
    }

    /// Notes that of `attempt`'s units so many are gone for good by now.
    pub(super) fn forget(&self, attempt: u64, forgotten: u32) {
        let mut inner = self.inner();
        let mut shares = inner.shares.iter_mut();
        if let Some(share) = shares.find(|share| share.attempt == attempt) {
            share.forgotten = forgotten;
        }
    }

    fn forgotten(&self, attempt: u64) -> u32 {
        let inner = self.inner();
        let mut shares = inner.shares.iter();
        let share = shares.find(|share| share.attempt == attempt);
        share.map_or(0, |share| share.forgotten)
    }

    /// Brings the watchdog's table in line with what the guards want. What is scheduled stays unless the lease differs.
    fn reschedule(self: &Arc<Self>, inner: &mut Inner, now: Moment) {
        let wanted = inner
            .renewing(now)
            .filter(|_| self.client.keeps(Rule::Renew));
        let scheduled = std::mem::replace(&mut inner.scheduled, wanted);
        match wanted {
            Some(lease) if scheduled != wanted => {
                self.client
                    .watchdog()
                    .insert(self.id, Arc::downgrade(self), lease);
            }
            Some(_) => {}
            None => self.client.watchdog().remove(self.id),
        }
    }

    fn is_live(&self, now: Moment) -> bool {
        let mut inner = self.inner();
        !inner.ended && !matches!(inner.belief.state(now), HoldState::Lost(_))
    }

    /// Returns why the hold was lost, if it was.
    fn loss(&self) -> Option<LossCause> {
        match self.inner().belief.state(self.client.now()) {
            HoldState::Lost(cause) => Some(cause),
            HoldState::Held | HoldState::Unknown => None,
        }
    }

    /// Tells of a loss, once, unless nobody holds any more.
    fn tell(&self, state: HoldState) -> HoldState {
        let HoldState::Lost(cause) = state else {
            return state;
        };
        let mut inner = self.inner();
        if inner.ended || std::mem::replace(&mut inner.told, true) {
            return state;
        }
        drop(inner);
        // While a closing client's guards wind up, nobody else shall get the name.
        if cause != LossCause::Closed {
            self.client.watchdog().remove(self.id);
        }
        let removed = self.take_out(&mut self.client.holds().table());
        if removed {
            self.unexcuse();
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
        if let Some(changed) = self.changed.get() {
            changed.notify_waiters();
        }
    }

    /// The owner's waiters queue like everybody again, unless it holds on another side.
    fn unexcuse(&self) {
        let (key, now) = (self.primitive.key(), self.client.now());
        if !self.client.holds().held(key, &self.owner, now) {
            self.client.turns().unexcuse(key, self.owner.number());
        }
    }

    /// Takes the hold out of the table, unless a later one has its place; returns whether it was there.
    fn take_out(&self, table: &mut Table<'_>) -> bool {
        let key = slot(self.primitive.as_ref(), &self.owner);
        let is_this = table
            .get(&key)
            .is_some_and(|hold| std::ptr::eq(hold.as_ptr(), self));
        is_this && table.remove(&key).is_some()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn renewing(&mut self, now: Moment) -> Option<Duration> {
        if let HoldState::Lost(cause) = self.belief.state(now)
            && cause != LossCause::Closed
        {
            return None;
        }
        let shares = self.shares.iter().filter(|share| now < share.until);
        shares.filter_map(|share| share.renewing).max()
    }
}

fn slot(primitive: &dyn Primitive, owner: &Owner) -> Slot {
    (primitive.key().clone(), owner.number(), primitive.side())
}

/// What somebody who waits for a loss sees.
enum Look {
    Lost(LossCause),
    /// Not lost: look again then.
    At(Moment),
    /// The last guard has gone; nothing can be lost any more.
    Ended,
}
