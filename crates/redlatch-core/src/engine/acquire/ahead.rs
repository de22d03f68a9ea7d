//! Grants that a release has made ahead, without a request of the waiter in between.
//!
//! A message reports such a grant, or the reply of a release of the same client. The report makes a
//! holder only if all of this is true:
//!
//! * It has the nonce of this attempt's order, which only the server knows.
//! * The grant is later than every hold that this attempt has been told of. A message that was
//!   delayed may be about a grant that has lapsed.
//! * The connection of the last answer is still in use. Its server's time dates the end of the
//!   hold.
//! * The hold lasts, counted from the sending of a request.
//!
//! Any other report makes the waiter ask. The answer says whether it holds.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::Run;
use crate::{
    base::{
        items::server_millis,
        primitive::{Grant, Primitive, Token},
        rules::Rule,
        timeouts::{SHORTEST_GRANTED_AHEAD, UNCONFIRMED_LEASE},
    },
    engine::{
        Held,
        hold::{Ahead, Asked},
    },
    net::Session,
    protocol::{
        grant::{Dated, Notice, Order},
        server_clock::whole_millis,
        time::Moment,
        waiter::{GiveUp, Plan, WaitStrategy},
    },
    runtime::Value,
};

/// The last answer to a waiter with an order.
#[derive(Debug)]
pub(super) struct Anchor {
    /// The connection on which it came.
    session: Weak<Session>,
    /// The token of the last hold that any answer named.
    last: Option<Token>,
}

/// Returns the order of an attempt, if a release may grant it ahead.
pub(super) fn order(asked: &Asked<'_>, primitive: &dyn Primitive, plan: &Plan) -> Option<Order> {
    let Asked {
        client,
        options,
        lease,
        ..
    } = asked;
    let waits = plan.give_up != GiveUp::AtFirstAnswer && plan.strategy == WaitStrategy::Notify;
    let ahead = primitive.grants_ahead().is_some()
        && waits
        && !options.whole_lease
        && !options.durability.waits()
        && lease.span() >= SHORTEST_GRANTED_AHEAD;
    ahead.then(|| {
        let span = client.lease_on_server(lease.span());
        Order {
            lease: whole_millis(span),
            ttl: whole_millis(span + client.0.retention),
            nonce: client.runtime().random(),
        }
    })
}

impl Run<'_> {
    /// Records what a reply to a request that was sent at `sent` says about later grants.
    pub(super) fn anchor(&mut self, reply: &Value, session: &Arc<Session>, sent: Moment) {
        if self.attempt.called_by.order.is_none() {
            return;
        }
        if let Some(millis) = server_millis(reply) {
            let sent = if self.client.keeps(Rule::DateBySending) {
                sent
            } else {
                self.client.now()
            };
            session.date(Dated { sent, millis });
        }
        let known = self.anchor.as_ref().and_then(|anchor| anchor.last);
        self.anchor = Some(Anchor {
            session: Arc::downgrade(session),
            last: known.max(self.primitive.last_token(reply)),
        });
    }

    /// Returns the guard of a grant that a message has reported, or the reply of a release of this
    /// client, if the report can be believed.
    pub(super) fn take_grant(&mut self) -> Option<Held> {
        self.attempt.called_by.order?;
        let notice = self.bell.take_grant()?;
        let now = self.client.now();
        let lasts = self.believed(&notice, now)?;
        let grant = Grant {
            count: self.primitive.grants_ahead()?,
            token: Token::from_u64(notice.token),
            serial: notice.token,
            abandoned: notice.abandoned,
            lasts: None,
            unqueued: false,
        };
        Some(self.deliver(grant, lasts, now, 0, Ahead::Yes))
    }

    /// Returns how long the hold of `notice` lasts as its holder counts it, and from when on.
    fn believed(&self, notice: &Notice, now: Moment) -> Option<(Moment, Duration)> {
        let order = self.attempt.called_by.order?;
        if order.nonce != notice.nonce && self.client.keeps(Rule::CheckNonce) {
            return None;
        }
        let Anchor { session, last } = self.anchor.as_ref()?;
        if last.is_some_and(|last| notice.token <= last.as_u64()) {
            return None;
        }
        let slot = self.primitive.key().slot();
        let session = session.upgrade()?;
        let current = self
            .client
            .net()
            .router
            .up(slot, self.asked.options.durability.link_class())?;
        if !Arc::ptr_eq(&session, &current) {
            return None;
        }
        let dated = session.dated()?;
        // No hold of this kind is longer, whatever the server's clock did in the meantime.
        let longest = UNCONFIRMED_LEASE.min(Duration::from_millis(order.lease));
        let span = dated.lasts(notice.ends).min(now - dated.sent + longest);
        let span = self.client.lease_of_holder(span);
        let lasts = self.client.lasts(dated.sent, span, now);
        lasts.then_some((dated.sent, span))
    }
}
