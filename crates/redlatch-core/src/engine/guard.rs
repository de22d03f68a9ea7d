//! The guard behind every guard of the family.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use super::{Hold, PendingRelease, Released, attempt::Delivered, release};
use crate::{
    Client, Error, LossCause, Owner,
    base::{
        owner::AttemptId,
        primitive::{Grant, Primitive, Renewed, Token},
        rules::Rule,
    },
    net::{Answered, Repeated},
    protocol::{
        hold::HoldState,
        lease::{Lease, LeaseError},
        time::Moment,
    },
};

/// What every guard knows of its hold: guards deref to this.
///
/// Dropping a guard releases in the background, in any context, also during a panic and outside of
/// a runtime.
#[must_use = "a guard that is dropped releases at once"]
pub struct Held {
    hold: Arc<Hold>,
    /// The number of its attempt.
    attempt: u64,
    token: Token,
    units: u32,
    /// How many replicas have confirmed the grant.
    acknowledged: u32,
    abandoned: bool,
    released: AtomicBool,
}

impl Held {
    pub(super) const fn new(
        hold: Arc<Hold>,
        delivered: &Delivered,
        grant: Grant,
        acknowledged: u32,
    ) -> Self {
        Self {
            hold,
            attempt: delivered.id.number(),
            token: grant.token,
            units: grant.count,
            acknowledged,
            abandoned: grant.abandoned,
            released: AtomicBool::new(false),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.hold.primitive().name()
    }

    /// Returns who holds; pass it to an acquisition to re-enter.
    pub fn owner(&self) -> &Owner {
        self.hold.owner()
    }

    /// Returns the client that holds.
    pub fn client(&self) -> &Client {
        self.hold.client()
    }

    /// Returns the fencing token of this hold: greater than that of every hold of this name before
    /// it, and the same for all its re-entries.
    ///
    /// Hand it to what the lock protects, and have that refuse a token lower than the highest it
    /// has seen: then no holder that lost its lease without noticing can do harm.
    pub fn token(&self) -> Token {
        self.hold.token()
    }

    /// Returns how many guards of this hold there are. Asks nobody.
    pub fn hold_count(&self) -> usize {
        self.hold.guards()
    }

    /// Tells whether the hold before ended without a release, by its lease or by force, and has not
    /// been released since: what its holder was at work on may be half done.
    ///
    /// Known to the guard whose acquisition began the hold, not to its re-entries. A `false` is no
    /// proof: the record of the hold before goes with its token's retention, and with an answer
    /// that was lost and asked for again.
    pub const fn is_after_abandonment(&self) -> bool {
        self.abandoned
    }

    /// Returns how many replicas had confirmed the grant when it was given: 0 unless its
    /// [`Durability`](crate::Durability) asked for some.
    pub const fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// Returns the state at this instant. Asks nobody: compares this client's clock.
    pub fn state(&self) -> HoldState {
        if self.hold.client().is_forked() {
            return HoldState::Lost(LossCause::Forked);
        }
        self.hold.state(self.hold.client().now())
    }

    /// Returns the kind of what is held, as it stands in events and metrics.
    pub fn kind(&self) -> &'static str {
        self.hold.primitive().kind()
    }

    /// Fails with the cause if the hold is lost; call it before each step that relies on it. Asks
    /// nobody.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost).
    pub fn check(&self) -> Result<(), Error> {
        match self.state() {
            HoldState::Lost(cause) => Err(Error::lost(cause)),
            HoldState::Held | HoldState::Unknown => Ok(()),
        }
    }

    /// Returns the deadline by this client's clock, [`Client::now`](crate::Client::now), if nothing renews the hold.
    /// Only looks: a hold may be lost before, which [`check`](Self::check) tells.
    pub fn valid_until(&self) -> Moment {
        self.hold.valid_until()
    }

    /// Returns how long the hold may be relied on if nothing renews it; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        if self.hold.client().is_forked() {
            return Duration::ZERO;
        }
        self.hold.remaining(self.hold.client().now())
    }

    /// Resolves when the hold is lost, without any reply having to arrive: its timer is set to 2 ms
    /// before the deadline.
    ///
    /// Never resolves once the last guard of the hold has gone, since then nothing can be lost any
    /// more: race it against the work. The future owns what it needs and does not keep the hold
    /// alive.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost; call it again.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.hold.lost()
    }

    /// Runs `future` for as long as the hold lasts. When the hold is lost, `future` is dropped at
    /// its next await. Each poll compares the clock first, so that nothing goes on after the
    /// process was suspended.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) with the cause.
    ///
    /// # Cancel safety
    ///
    /// As `future` itself; the guard stays as it is.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut future = pin!(future);
        let mut lost = pin!(self.hold.lost());
        poll_fn(|context| {
            // Its first act is to compare the clock, so this notices a loss that no timer has told
            // yet.
            self.check()?;
            if let Poll::Ready(cause) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(Error::lost(cause)));
            }
            future.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Makes the lease last at least `span` from now, once, for all guards of the hold: 50 ms to
    /// 365 days. Never shortens. Costs one command.
    ///
    /// Where a guard of the hold was acquired with a [`Durability`](crate::Durability), as many replicas have
    /// confirmed this too when it returns, at the cost of a `WAIT`.
    ///
    /// # Errors
    ///
    /// `InvalidLease`; `Lost` if the hold is over; `Permission`, `Closed`; `OutcomeUnknown` or
    /// `Unavailable` if the server did not answer before the deadline, or for as long as the client
    /// is patient; `NotEnoughReplicas` if too few have confirmed it in time. The guard then keeps
    /// the deadline it had; the lease on the server is what it was or longer.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the guard keeps the deadline it had; the lease on the server is what it was or
    /// longer.
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        let lease = Lease::fixed(span).map_err(invalid_lease)?;
        let client = self.hold.client();
        client.check_process()?;
        client.net().world.life.check()?;
        self.check()?;
        let deadline = self
            .hold
            .valid_until()
            .min(client.now() + client.patience());
        let call = self.hold.renewal(lease.span());
        // The first try may come too late to act when the server's time was not heard for long; its
        // answer tells it.
        for _ in 0..2 {
            let sent = client.now();
            let needs = |replicas| self.hold.needs(replicas);
            let repeated = Repeated {
                call: &call,
                timeout: lease.attempt_timeout(),
                deadline,
                needs: self.hold.is_durable().then_some(&needs as _),
            };
            let Answered {
                reply, confirmed, ..
            } = client.net().insist(repeated).await?;
            match self.hold.primitive().renewed(&reply)? {
                Renewed::Renewed | Renewed::Ends(_) if confirmed.is_err() => return confirmed,
                Renewed::Renewed => {
                    self.hold.extended(sent, lease.span());
                    return self.check();
                }
                Renewed::Ends(rest) => {
                    let rest = client.lease_of_holder(rest);
                    self.hold.extended(sent, rest);
                    let message = format!("nothing makes it last longer than {rest:?}");
                    return Err(Error::new(crate::ErrorKind::OutOfRange, message));
                }
                Renewed::Lost(cause) => {
                    self.hold.lose(cause);
                    return self.check();
                }
                Renewed::Late => {}
            }
        }
        let message = "the server got the extension too late; the lease is what it was";
        Err(Error::new(crate::ErrorKind::Unavailable, message))
    }

    /// Releases this guard and says what became of it. Costs one command.
    ///
    /// A hold that was lost before is an answer and not an error; see [`Released`].
    ///
    /// # Errors
    ///
    /// `Unavailable` or `OutcomeUnknown` when the server did not answer for as long as the client
    /// is patient; the release goes on in the background. `Permission`, and `Closed` when the
    /// client has been closed, which released it already if the server could be reached.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the release goes on in the background.
    pub async fn release(self) -> Result<Released, Error> {
        self.hold.client().check_process()?;
        let pending = self.take_release();
        release::run(self.hold.client(), pending).await
    }

    /// Returns what the guard holds of its object. For the crates of this family.
    #[doc(hidden)]
    pub fn primitive(&self) -> &Arc<dyn Primitive> {
        self.hold.primitive()
    }

    /// Returns which hold it is, where holds are named by serials. For the crates of this family.
    #[doc(hidden)]
    pub fn serial(&self) -> u64 {
        self.hold.serial()
    }

    /// Returns the token that this guard was granted with, where the guards of a hold may differ in
    /// it. For the crates of this family.
    #[doc(hidden)]
    pub const fn granted_token(&self) -> Token {
        self.token
    }

    /// Returns the lease it was acquired with. For the crates of this family.
    #[doc(hidden)]
    pub fn lease(&self) -> Lease {
        self.hold.lease(self.attempt).unwrap_or_default()
    }

    /// Lets go of a guard whose share the server has ended already, as part of something else that
    /// also stops copies of its acquire. For the crates of this family.
    #[doc(hidden)]
    pub fn surrender(self) {
        self.take_release();
    }

    /// Leaves the hold on the server to itself: nothing of this process ends it. Returns by which
    /// attempt it was taken, and the last server time at which a copy of that may act, if copies
    /// may be under way. For the crates of this family.
    #[doc(hidden)]
    pub fn hand_over(self) -> (AttemptId, Option<u64>) {
        let act_before = self.void_by();
        self.take_release();
        (self.attempt(), act_before)
    }

    /// Returns the last server time at which a copy of its acquire may act, if copies may be under
    /// way. For the crates of this family.
    #[doc(hidden)]
    pub fn void_by(&self) -> Option<u64> {
        self.hold.void_by(self.attempt)
    }

    /// Returns how many units the grant was of, or how many attempts held together. For the crates
    /// of this family.
    #[doc(hidden)]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Returns the attempt by which it was taken. For the crates of this family.
    #[doc(hidden)]
    pub fn attempt(&self) -> AttemptId {
        AttemptId::of(self.hold.owner(), self.attempt)
    }

    /// Notes that of its units so many are gone for good by now.
    pub(super) fn forget(&self, forgotten: u32) {
        self.hold.forget(self.attempt, forgotten);
    }

    /// Leaves the hold in this process; the returned release ends it on the server.
    pub(super) fn take_release(&self) -> PendingRelease {
        self.released.store(true, Ordering::Relaxed);
        let mut pending = self.pending_release(0);
        self.hold.leave(self.attempt);
        if self.hold.guards() == 0 {
            pending.name_next_waiter(self.hold.client());
        }
        pending
    }

    /// Returns what leaves `left` units of this on the server.
    pub(super) fn pending_release(&self, left: u32) -> PendingRelease {
        let mut pending = self.hold.pending_release(self.attempt);
        pending.left = left;
        pending
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Another thread of the process that was forked may have had the locks that leaving takes.
        if !self.released.load(Ordering::Relaxed) && !self.hold.client().is_forked() {
            let releases = self.hold.client().keeps(Rule::ReleaseOnDrop);
            let pending = self.take_release();
            if releases {
                self.hold.client().enqueue_release(pending);
            }
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.name())
            .field("owner", self.owner())
            .field("token", &self.token())
            .field("state", &self.state())
            .finish()
    }
}

pub(crate) fn invalid_lease(error: LeaseError) -> Error {
    Error::with_source(crate::ErrorKind::InvalidLease, error.to_string(), error)
}
