//! The guard on which every guard of the family is built.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Weak, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use super::{Hold, PendingRelease, Released, context::ReleaseTicket, hold::Granted, release};
use crate::{
    Client, Error, LossCause, Owner,
    base::{
        owner::AttemptId,
        primitive::{Primitive, Renewed, Token},
        sync::AtomicBool,
    },
    net::{Answered, Repeated},
    protocol::{
        hold::HoldState,
        lease::{Lease, LeaseError},
        server_clock::ServerClock,
        time::Moment,
    },
};

/// The part that every guard has alike: token, deadline, loss. All guards of one hold deref to this
/// type.
///
/// Dropping a guard releases in the background. You may drop a guard in any context, also during a
/// panic and outside of a runtime.
#[doc(alias = "guard")]
#[must_use = "a guard that is dropped releases at once"]
pub struct Held {
    hold: Arc<Hold>,
    /// The number of the attempt that acquired it.
    attempt: u64,
    token: Token,
    units: u32,
    /// The number of replicas that have confirmed the grant.
    acknowledged: u32,
    abandoned: bool,
    released: AtomicBool,
}

impl Held {
    /// Enters the hold of a grant that `acknowledged` replicas have confirmed.
    pub(super) fn enter(granted: &Granted<'_>, now: Moment, acknowledged: u32) -> Self {
        let (grant, hold) = (granted.grant, Hold::enter(granted, now));
        let attempt = granted.delivered.id.number();
        Self {
            attempt,
            token: grant.token,
            units: grant.count,
            acknowledged,
            abandoned: grant.abandoned && hold.attempt == attempt,
            released: AtomicBool::new(false),
            hold,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.hold.primitive.name()
    }

    /// Returns the owner. Pass the owner to an acquisition to re-enter; see
    /// [`Acquire::owner`](crate::Acquire::owner).
    pub fn owner(&self) -> &Owner {
        &self.hold.owner
    }

    /// Returns the client that acquired the hold. It has no method `lock`, since all kinds of locks
    /// share it. `redlatch::Client::from(guard.client().clone())` has one.
    pub fn client(&self) -> &Client {
        &self.hold.client
    }

    /// Returns the fencing token of this hold. The token is greater than the token of every earlier
    /// hold of this name, and the same for all re-entries.
    ///
    /// Pass the token to the resource that the lock protects. The resource must reject a token
    /// lower than the highest it has seen. A holder that lost its lease unnoticed can then do no
    /// harm.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # struct Db;
    /// # impl Db { async fn execute(&self, _: &str, _: &[u64]) -> u64 { 1 } }
    /// # async fn example(guard: redlatch::Held, db: Db) {
    /// let sql = "UPDATE orders SET state = 'paid', token = $1 WHERE id = 42 AND token <= $1";
    /// let rows = db.execute(sql, &[guard.token().as_u64()]).await;
    /// if rows == 0 {
    ///     println!("a later holder has written, so this write was refused");
    /// }
    /// # }
    /// ```
    ///
    /// The token is zero, and lower than every other token, for a lock in the layout of another
    /// library, from the module `compat`.
    #[doc(alias = "fencing token")]
    pub fn token(&self) -> Token {
        self.hold.token
    }

    /// Returns the number of guards of this hold in this process. Sends no request.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
    /// let outer = lock.lock().await?;
    /// let inner = lock.lock().owner(outer.owner()).await?;
    /// assert_eq!(outer.hold_count(), 2);
    /// drop(inner);
    /// assert_eq!(outer.hold_count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "getHoldCount")]
    pub fn hold_count(&self) -> usize {
        self.hold.guards()
    }

    /// Returns true if the previous hold ended without a release, by its lease or by force, and has
    /// not been released since. The work of its holder may be half done.
    ///
    /// Only the guard whose acquisition began the hold returns true, not its re-entries. `false`
    /// does not prove a release. The record of the previous hold is lost when the retention of its
    /// token ends, and when a reply was lost and the request was repeated.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn repair() {}
    /// # async fn example(guard: redlatch::Held) {
    /// if guard.is_after_abandonment() {
    ///     repair().await; // the previous holder died in the middle of its work
    /// }
    /// # }
    /// ```
    pub const fn is_after_abandonment(&self) -> bool {
        self.abandoned
    }

    /// Returns how many replicas had confirmed the grant at the time of the grant. The number is 0
    /// unless a [`Durability`](crate::Durability) required some.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
    /// use redlatch::Durability;
    ///
    /// let guard = lock.lock().durability(Durability::Replicas(1)).await?;
    /// println!("{} replicas have the hold", guard.acknowledged());
    /// # Ok(())
    /// # }
    /// ```
    pub const fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// Returns the state at this instant by this client's clock. Sends no request.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
    /// use redlatch::HoldState;
    ///
    /// match guard.state() {
    ///     HoldState::Lost(cause) => println!("lost: {cause}"),
    ///     state => println!("{state}, for {:?} at least", guard.remaining()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> HoldState {
        if self.hold.client.0.life().is_forked() {
            return HoldState::Lost(LossCause::Forked);
        }
        self.hold.state(self.hold.client.now())
    }

    /// Returns the kind of the held object, as it appears in events and metrics.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
    /// println!("{} {:?} with token {}", guard.kind(), guard.name(), guard.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn kind(&self) -> &'static str {
        self.hold.primitive.kind()
    }

    /// Fails with the cause if the hold is lost. Call this method before each step that relies on
    /// the hold. Sends no request.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn copy(_: u32) {}
    /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
    /// for table in 0..100 {
    ///     guard.check()?; // stop before the next table if the lock is lost
    ///     copy(table).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost).
    #[doc(alias = "is_valid")]
    pub fn check(&self) -> Result<(), Error> {
        match self.state() {
            HoldState::Lost(cause) => Err(self.about(Error::lost(cause))),
            HoldState::Held | HoldState::Unknown => Ok(()),
        }
    }

    /// Returns the deadline by this client's clock, [`Client::now`](crate::Client::now), if nothing
    /// renews the hold. A hold may be lost before its deadline; see [`check`](Self::check).
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
    /// let now = guard.client().now();
    /// println!("valid for {:?} without a renewal", guard.valid_until() - now);
    /// # Ok(())
    /// # }
    /// ```
    pub fn valid_until(&self) -> Moment {
        self.hold.valid_until()
    }

    /// Returns how long you can rely on the hold if nothing renews it. Returns zero after a loss.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// let upload = Duration::from_secs(20); // at most
    /// if guard.remaining() < upload {
    ///     guard.extend(upload).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "remainTimeToLive")]
    #[doc(alias = "ttl")]
    pub fn remaining(&self) -> Duration {
        match self.state() {
            HoldState::Lost(_) => Duration::ZERO,
            HoldState::Held | HoldState::Unknown => self.valid_until() - self.hold.client.now(),
        }
    }

    /// Resolves when the hold is lost. The timer is set to 2 ms before the deadline, so no reply
    /// has to arrive.
    ///
    /// Never resolves after the last guard of the hold has been dropped. The future owns its data
    /// and does not keep the hold alive.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn serve() {}
    /// # async fn example(guard: redlatch::Held) {
    /// tokio::select! {
    ///     () = serve() => println!("done"),
    ///     cause = guard.lost() => println!("stopped, since the lock is lost: {cause}"),
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. You may call the method again.
    pub fn lost(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.hold.lost()
    }

    /// Resolves `before` the deadline, unless the hold is renewed or extended in time. Resolves at
    /// once when the hold is lost and when the client closes. Use the future to finish work in
    /// order.
    ///
    /// The client renews a hold at the latest when two thirds of its lease are left. With a
    /// `before` of up to half of the lease, the future resolves only if renewals fail. With a
    /// longer one, the future resolves although nothing is wrong. For a lease that nothing renews,
    /// you may choose any `before`.
    ///
    /// A release can grant a fair lock, a write lock or the permits of a semaphore to a waiter.
    /// Such a hold lasts for 5 s at most until its first renewal is answered, within half a second.
    /// Until then, the future resolves when half of that time is left.
    ///
    /// Never resolves after the last guard of the hold has been dropped. The future owns its data
    /// and does not keep the hold alive. Sends no request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. You may call the method again.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn step() {}
    /// # async fn save() {}
    /// # async fn example(guard: &redlatch::Held) {
    /// use std::{pin::pin, time::Duration};
    ///
    /// let mut ending = pin!(guard.ending(Duration::from_secs(3)));
    /// loop {
    ///     tokio::select! {
    ///         () = &mut ending => break save().await, // 3 s are left
    ///         () = step() => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn ending(&self, before: Duration) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.hold.ending(before)
    }

    /// Runs `future` while the hold lasts. If the hold is lost, `future` is dropped at its next
    /// await. Each poll reads the clock first, so no work continues after the process was
    /// suspended.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn render() -> Vec<u8> { Vec::new() }
    /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
    /// match guard.run(render()).await {
    ///     Ok(page) => println!("{} bytes", page.len()),
    ///     Err(lost) => println!("the work was dropped: {lost}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) with the cause.
    ///
    /// # Cancel safety
    ///
    /// The same as that of `future`. The guard is unchanged.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        while_lasting(pin!(future), || self.check(), pin!(self.lost())).await
    }

    /// Extends the lease of all guards of the hold, once, to at least `span` from now: 50 ms to 365
    /// days. Never shortens the lease. Costs one command.
    ///
    /// If a guard of the hold was acquired with a [`Durability`](crate::Durability), the same
    /// number of replicas has confirmed the extension when this method returns. That costs an
    /// additional `WAIT`.
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # trait Lock { fn lock(&self) -> redlatch::Acquire<redlatch::Held>; }
    /// # async fn part(_: u32) {}
    /// # async fn example(lock: &impl Lock) -> Result<(), redlatch::Error> {
    /// use std::time::Duration;
    ///
    /// let minute = Duration::from_secs(60);
    /// let guard = lock.lock().lease(minute).await?; // not renewed
    /// for upload in 0..100 {
    ///     part(upload).await;
    ///     guard.extend(minute).await?; // a minute for the next part
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Lost` if the hold has ended. `InvalidLease`. `OutOfRange` if the lease has an upper limit
    /// that ends it earlier. `NotEnoughReplicas` if too few replicas confirmed in time. Otherwise
    /// those of [every call](Error#errors-of-every-call), at the deadline of the hold at the
    /// latest. After an error other than `Lost` and `OutOfRange`, the guard keeps its previous
    /// deadline, and the lease on the server is unchanged or longer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the guard keeps its previous deadline. The lease on the server is
    /// unchanged or longer.
    #[doc(alias = "renew")]
    #[doc(alias = "refresh")]
    pub async fn extend(&self, span: Duration) -> Result<(), Error> {
        let lease = Lease::fixed(span).map_err(invalid_lease)?;
        let client = &self.hold.client;
        client.check_process()?;
        client.net().world.life.check()?;
        self.check()?;
        let extended = self.extend_to(lease).await;
        extended.map_err(|error| self.about(error))
    }

    async fn extend_to(&self, lease: Lease) -> Result<(), Error> {
        let client = &self.hold.client;
        let deadline = self
            .hold
            .valid_until()
            .min(client.now() + client.0.patience);
        let call = self.hold.renewal(client.now(), lease.span());
        // The first request may arrive too late to act, if this client has not received the
        // server's time for long. Its reply contains the time, so the second request is dated
        // correctly.
        for _ in 0..2 {
            let sent = client.now();
            let needs = |replicas| self.hold.needs(replicas);
            let repeated = Repeated {
                needs: self.hold.is_durable().then_some(&needs as _),
                ..Repeated::new(&call, lease.attempt_timeout(), deadline)
            };
            let Answered {
                reply, confirmed, ..
            } = client.net().insist(repeated).await?;
            match self.hold.primitive.renewed(call.script(), &reply)? {
                Renewed::Renewed | Renewed::Ends(_) if confirmed.is_err() => return confirmed,
                Renewed::Renewed => {
                    self.hold.extended(sent, client.now(), lease.span());
                    return self.check();
                }
                Renewed::Ends(rest) => {
                    let rest = client.lease_of_holder(rest);
                    self.hold.extended(sent, client.now(), rest);
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
        Err(Error::unavailable(message))
    }

    /// Names the object of this guard in `error`.
    fn about(&self, error: Error) -> Error {
        let primitive = &self.hold.primitive;
        error.about(primitive.kind(), primitive.name())
    }

    /// Releases this guard and returns the outcome. Costs one command.
    ///
    /// An earlier loss of the hold is an outcome and not an error; see [`Released`].
    ///
    /// ```no_run
    /// # use redlatch_core as redlatch;
    /// # async fn example(guard: redlatch::Held) -> Result<(), redlatch::Error> {
    /// use redlatch::Released;
    ///
    /// match guard.release().await? {
    ///     Released::Free => println!("the name is free"),
    ///     Released::StillHeld(n) => println!("{n} more guards of this owner"),
    ///     other => println!("the hold had ended before: {other}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [every call](Error#errors-of-every-call). An unanswered release continues in the
    /// background. If the client has been closed, the hold has been released if the server was
    /// reachable.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release continues in the background.
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<Released, Error> {
        self.hold.client.check_process()?;
        let ticket = ReleaseTicket::new(&self.hold.client);
        let now = self.hold.client.now();
        let pending = self.take_release_at(now);
        release::run(ticket, pending, Some(now)).await
    }

    /// Returns until when work under the hold may go on, if nothing changes. Work that has to end
    /// before the name is given away reads it before each step. Fails with the cause if the work
    /// must not go on. For the crates of this family.
    ///
    /// While the client closes, the hold counts as lost and its name is kept until the end of the
    /// grace. So this allows work which has been told to finish until then.
    #[doc(hidden)]
    pub fn work_until(&self) -> Result<Moment, LossCause> {
        let client = &self.hold.client;
        if client.0.life().is_forked() {
            return Err(LossCause::Forked);
        }
        self.hold.work_until(client.now())
    }

    /// Resolves when work under the hold must not go on; see [`work_until`](Self::work_until). For
    /// the crates of this family.
    #[doc(hidden)]
    pub fn work_over(&self) -> impl Future<Output = LossCause> + Send + 'static + use<> {
        self.hold.work_over()
    }

    /// Returns until when the server keeps the name for this hold if nothing renews it, also after
    /// a loss. After the end of the hold on the server, the moment says nothing. For the crates of
    /// this family.
    #[doc(hidden)]
    pub fn kept_until(&self) -> Moment {
        self.hold.kept_until()
    }

    /// Returns the primitive that the guard holds. For the crates of this family.
    #[doc(hidden)]
    pub fn primitive(&self) -> &Arc<dyn Primitive> {
        &self.hold.primitive
    }

    /// Returns the serial of the hold, for kinds that name holds by serials. For the crates of this
    /// family.
    #[doc(hidden)]
    pub fn serial(&self) -> u64 {
        self.hold.serial
    }

    /// Returns the token that this guard was granted with. The guards of one hold may have
    /// different tokens. For the crates of this family.
    #[doc(hidden)]
    pub const fn granted_token(&self) -> Token {
        self.token
    }

    /// Returns the lease that the guard was acquired with. For the crates of this family.
    #[doc(hidden)]
    pub fn lease(&self) -> Lease {
        self.hold.lease(self.attempt).unwrap_or_default()
    }

    /// Drops a guard without a release. Another request has already ended its share on the server
    /// and also stops copies of its acquire. For the crates of this family.
    #[doc(hidden)]
    pub fn surrender(self) {
        self.take_release();
    }

    /// Drops a guard and leaves the hold on the server untouched: nothing in this process ends it.
    /// Returns the attempt that acquired it. Also returns the last server time at which a copy of
    /// that attempt may act, if copies may be in flight. Such copies are stopped in the background,
    /// since the lease may end before they arrive, and nobody has to release the hold. For the
    /// crates of this family.
    #[doc(hidden)]
    pub fn hand_over(self) -> (AttemptId, Option<u64>) {
        let act_before = self.void_by();
        let _ticket = ReleaseTicket::new(&self.hold.client);
        // This release takes nothing back.
        let mut stop = self.pending_release(u32::MAX);
        self.take_release();
        if act_before.is_some() {
            let client = &self.hold.client;
            stop.give_up_at = stop.give_up_at.max(client.now() + ServerClock::REACH * 2);
            client.enqueue_release(stop);
        }
        (self.attempt(), act_before)
    }

    /// Writes a note about the hold, within a second and a part of the lease. See
    /// [`ClientRecord::note`](super::client_record::ClientRecord).
    pub(super) async fn put_note(&self, text: &str) {
        let primitive = &self.hold.primitive;
        let attempt = self.attempt();
        let holder = match primitive.names_attempts() {
            true => attempt.to_string(),
            false => self.owner().to_string(),
        };
        let lease = self.remaining();
        let hold: Weak<Hold> = Arc::downgrade(&self.hold);
        let text = format!("{} {text}", self.token);
        let name = (holder.as_str(), primitive.name());
        let record = &self.hold.client.0.record;
        record.note(name, text, (hold, lease)).await;
    }

    /// Returns the last server time at which a copy of its acquire may act, if copies may be in
    /// flight. For the crates of this family.
    #[doc(hidden)]
    pub fn void_by(&self) -> Option<u64> {
        self.hold.void_by(self.attempt)
    }

    /// Returns the number of units of the grant, or the number of attempts that hold together. For
    /// the crates of this family.
    #[doc(hidden)]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Returns the attempt that acquired it. For the crates of this family.
    #[doc(hidden)]
    pub fn attempt(&self) -> AttemptId {
        AttemptId::of(&self.hold.owner, self.attempt)
    }

    /// Records that the caller does not have the guard yet. If the guard is dropped before
    /// [`hand_out`](Self::hand_out), its hold is undone, so that the next holder learns of an
    /// abandoned hold before this one. For the crates of this family.
    #[doc(hidden)]
    pub fn withhold(&self) {
        if self.abandoned {
            self.hold.withhold(self.attempt, true);
        }
    }

    /// Records that the caller gets the guard. For the crates of this family.
    #[doc(hidden)]
    pub fn hand_out(&self) {
        if self.abandoned {
            self.hold.withhold(self.attempt, false);
        }
    }

    /// Undoes a grant whose caller never gets the guard.
    pub(super) fn take_back(self) {
        self.hold.withhold(self.attempt, true);
    }

    /// Records that `units` of it are permanently gone.
    pub(super) fn forget(&self, units: u32) {
        self.hold.forget(self.attempt, units);
    }

    /// Removes this guard from the hold in this process. The returned release ends it on the
    /// server.
    pub(super) fn take_release(&self) -> PendingRelease {
        self.take_release_at(self.hold.client.now())
    }

    fn take_release_at(&self, now: Moment) -> PendingRelease {
        self.released.store(true, Ordering::Relaxed);
        let mut pending = self.pending_release(0);
        self.hold.leave(self.attempt, now);
        if self.hold.guards() == 0 && pending.part.is_some() {
            pending.name_next_waiter(self.hold.client.local_queues());
        }
        pending
    }

    /// Returns the release after which `left` units of this guard remain on the server.
    pub(super) fn pending_release(&self, left: u32) -> PendingRelease {
        self.hold.pending_release(self.attempt, left)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // In a forked process this must not run: another thread of the parent may have held the
        // locks that `leave` takes.
        let client = &self.hold.client;
        if self.released.load(Ordering::Relaxed) || client.0.life().is_forked() {
            return;
        }
        let ticket = ReleaseTicket::new(client);
        let pending = self.take_release();
        client.release_dropped(ticket, pending);
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

/// Runs `future` while `check` succeeds and `lost` has not resolved. Each poll checks first.
pub(super) fn while_lasting<F: Future>(
    mut future: Pin<&mut F>,
    check: impl Fn() -> Result<(), Error>,
    mut lost: Pin<&mut impl Future<Output = LossCause>>,
) -> impl Future<Output = Result<F::Output, Error>> {
    poll_fn(move |context: &mut Context<'_>| {
        // The check reads the clock, so it detects a loss that no timer has reported yet.
        check()?;
        if let Poll::Ready(cause) = lost.as_mut().poll(context) {
            // The check names the object.
            return Poll::Ready(Err(check().err().unwrap_or_else(|| Error::lost(cause))));
        }
        future.as_mut().poll(context).map(Ok)
    })
}

pub(crate) fn invalid_lease(error: LeaseError) -> Error {
    Error::with_reason(crate::ErrorKind::InvalidLease, error.to_string(), error)
}
