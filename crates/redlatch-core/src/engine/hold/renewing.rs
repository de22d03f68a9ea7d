//! The renewal of a hold: when it is due, what it asks for, and what its answer means.

use std::{sync::Arc, time::Duration};

use super::{Hold, Inner};
use crate::{
    base::{
        observe, owner::AttemptId, primitive::RenewRequest, rules::Rule, script::ScriptCall,
        timeouts,
    },
    protocol::{
        hold::{HoldState, LocalLease, LossCause},
        server_clock::ServerClock,
        time::Moment,
    },
};

impl Hold {
    /// Begins the renewal that was due at `at`. Returns the hold's deadline, and whether replicas
    /// have to confirm the renewal. Returns `None` if that renewal is no longer scheduled.
    pub(in crate::engine) fn due(&self, at: Moment) -> Option<(Moment, bool)> {
        let mut inner = self.inner();
        let begins = inner.renewal.begin(at);
        let durable = inner.is_durable() && self.client.keeps(Rule::RenewDurably);
        begins.then(|| (inner.local_lease.valid_until(), durable))
    }

    /// Records at `now` that the renewal sent at `sent` has set the lease to `span`, where `lease`
    /// was requested.
    pub(in crate::engine) fn renewed(
        self: &Arc<Self>,
        sent: Moment,
        now: Moment,
        span: Duration,
        lease: Duration,
    ) {
        self.extended(sent, now, span);
        let mut inner = self.inner();
        inner.unconfirmed = false;
        // A hold that was granted ahead needs one renewal, also with a fixed lease.
        if inner.renewing(now).is_none() {
            self.unschedule(&mut inner);
        } else {
            let watchdog = &self.client.0.watchdog;
            watchdog.answered(self, &mut inner.renewal, Some(lease), sent);
        }
    }

    /// Tells whether the hold was granted ahead, and no renewal has been answered yet.
    pub(in crate::engine) fn is_unconfirmed(&self) -> bool {
        self.inner().unconfirmed
    }

    /// Records that the renewal had no clear answer. The next renewal is scheduled sooner.
    pub(in crate::engine) fn not_renewed(self: &Arc<Self>) {
        self.troubled();
        let watchdog = &self.client.0.watchdog;
        watchdog.answered(self, &mut self.inner().renewal, None, self.client.now());
    }

    /// Records at `now` that a request sent at `sent` has set the lease to `span`.
    pub(in crate::engine) fn extended(&self, sent: Moment, now: Moment, span: Duration) {
        let sent = if self.client.keeps(Rule::CountRenewalFromSend) {
            sent
        } else {
            now
        };
        let mut inner = self.inner();
        if !self.client.keeps(Rule::LatchLoss) {
            inner.local_lease = LocalLease::new(self.client.0.trust, sent, span);
        }
        let state = inner
            .local_lease
            .extended(self.client.0.trust, sent, span, now);
        drop(inner);
        if !matches!(state, HoldState::Lost(_)) {
            self.tell_deadline(now);
        }
        self.tell(state);
    }

    /// Tells the deadline in the span of the hold.
    pub(super) fn tell_deadline(&self, now: Moment) {
        if let Some(span) = self.span() {
            observe::hold_renewed(&span, self.valid_until() - now);
        }
    }

    /// Records that a renewal had no clear answer.
    pub(in crate::engine) fn troubled(&self) {
        let state = self.inner().local_lease.troubled(self.client.now());
        self.tell(state);
    }

    /// Builds the call that sets the lease to `span`, as the holder counts it. The call is sent at
    /// `now`.
    pub(crate) fn renewal(&self, now: Moment, span: Duration) -> ScriptCall {
        let asked_until = now + self.client.lease_on_server(span) + ServerClock::REACH;
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
            retention: self.client.0.retention,
        })
    }

    /// Returns the lease that the watchdog has to renew at `now`: the longest that any guard
    /// requests, while the hold lasts. If there is none, removes the hold from the watchdog's
    /// table. Both happen under one lock: otherwise a guard that joins in between would assume that
    /// the hold is in the table.
    pub(in crate::engine) fn renewing_or_unscheduled(&self, now: Moment) -> Option<Duration> {
        let mut inner = self.inner();
        let renewing = inner.renewing(now);
        if renewing.is_none() {
            self.unschedule(&mut inner);
        }
        renewing
    }

    /// Tells whether replicas have to confirm renewals.
    pub(in crate::engine) fn is_durable(&self) -> bool {
        let inner = self.inner();
        inner.is_durable()
    }

    /// Returns how many of `replicas` have to confirm a renewal: the maximum over all guards.
    pub(in crate::engine) fn needs(&self, replicas: u32) -> u32 {
        let inner = self.inner();
        let shares = inner.shares.as_slice().iter();
        let needs = shares.map(|share| share.terms().durability.needs(replicas));
        needs.max().unwrap_or(0)
    }

    /// Updates the watchdog's table to the lease that the guards request. A scheduled renewal stays
    /// unless the lease differs.
    pub(super) fn reschedule(self: &Arc<Self>, inner: &mut Inner, now: Moment) {
        let wanted = inner
            .renewing(now)
            .filter(|_| self.client.keeps(Rule::Renew));
        match wanted {
            Some(lease) if inner.renewal.lease() != wanted => {
                let watchdog = &self.client.0.watchdog;
                let within = inner.unconfirmed.then_some(timeouts::CONFIRMATION);
                watchdog.insert(self, &mut inner.renewal, lease, within);
            }
            Some(_) => {}
            None => self.unschedule(inner),
        }
    }

    /// Renews the hold at `at`, if it is renewed at all and its next renewal would be later.
    pub(in crate::engine) fn hurry(&self, at: Moment) {
        let watchdog = &self.client.0.watchdog;
        watchdog.hurry(self, &mut self.inner().renewal, at);
    }

    pub(super) fn unschedule(&self, inner: &mut Inner) {
        self.client.0.watchdog.remove(self, &mut inner.renewal);
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
        if self.unconfirmed {
            return shares.map(|share| share.lease.span()).max();
        }
        shares.filter_map(|share| share.renewing(now)).max()
    }

    fn is_durable(&self) -> bool {
        let mut shares = self.shares.as_slice().iter();
        shares.any(|share| share.terms().durability.waits())
    }
}
