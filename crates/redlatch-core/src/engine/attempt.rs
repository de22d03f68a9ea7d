//! The state that one acquisition may have created on the server, and its undo.

use std::{sync::Arc, time::Duration};

use super::{
    PendingRelease,
    hold::{Asked, Copies, Delivered},
};
use crate::{
    Client, Owner,
    base::{
        owner::AttemptId,
        primitive::{Primitive, WaiterAddress},
        rules::Rule,
    },
    net::CalledBy,
    protocol::{
        grant::Order, remains::Remains, server_clock::ServerClock, time::Moment,
        waiter::Subscription,
    },
};

/// The undo guard of one acquisition. It is armed before the first request is sent, and disarmed
/// only when the grant is delivered.
///
/// Dropping it undoes, in the background, everything that the requests have done or may still do.
#[derive(Debug)]
pub(super) struct Attempt {
    client: Client,
    primitive: Arc<dyn Primitive>,
    owner: Owner,
    pub(super) id: AttemptId,
    /// How the server notifies it.
    pub(super) called_by: CalledBy,
    lease: Duration,
    /// What it may have left. The code that sends a request records that, before and afterwards.
    pub(super) remains: Remains,
}

impl Attempt {
    /// Creates an attempt that is notified unless it is `silent`. Attempts for several names that
    /// one request asks for have the same id.
    pub(super) fn new(
        asked: &Asked<'_>,
        primitive: &Arc<dyn Primitive>,
        id: AttemptId,
        (silent, order): (bool, Option<Order>),
    ) -> Self {
        let called_by = CalledBy {
            wakes: asked.client.wakes(primitive.key().slot()),
            silent,
            order,
        };
        Self {
            client: asked.client.clone(),
            primitive: Arc::clone(primitive),
            owner: asked.owner.clone(),
            id,
            called_by,
            lease: asked.lease.span(),
            remains: Remains::default(),
        }
    }

    /// Draws a new number unless a server may know the present one. Returns whether the number has
    /// changed.
    pub(super) fn renumber(&mut self) -> bool {
        let unknown = !self.remains.is_any();
        if unknown {
            self.id = self.client.draw_attempt();
        }
        unknown
    }

    /// Tells whether this client receives every message that notifies it.
    pub(super) fn subscription(&self) -> Subscription {
        let channel = self.primitive.channel();
        let heard = self.called_by.wakes.are_heard()
            && channel.is_none_or(|channel| self.client.net().hub.hears(&channel));
        heard.into()
    }

    /// Waits until this client receives every message that notifies the attempt. Returns `false` if
    /// it cannot, or not by `deadline`.
    pub(super) async fn ready(&self, deadline: Moment) -> bool {
        let ready = self.called_by.wakes.ready(deadline).await;
        match self.primitive.channel() {
            Some(channel) if ready => self.client.net().hub.ready(&channel, deadline).await,
            _ => ready,
        }
    }

    /// Returns the address for notifications.
    pub(super) fn address(&self) -> WaiterAddress<'_> {
        self.called_by.address(self.id.number())
    }

    /// Moves notifications to the channel of the shard that owns the slot now. Returns whether the
    /// channel changed. An entry under the old channel is notified in vain at most once.
    pub(super) fn follow_slot(&mut self) -> bool {
        let wakes = self.client.wakes(self.primitive.key().slot());
        let moved = !Arc::ptr_eq(&wakes, &self.called_by.wakes);
        if moved {
            self.called_by.wakes = wakes;
        }
        moved
    }

    /// Records that the grant is delivered. From now on the guard is responsible for it.
    pub(super) fn deliver(&mut self) -> Delivered {
        let copies = self.void_by().filter(|_| self.remains.has_copies());
        let copies = copies.map(|act_before| {
            let called_by = self.entry();
            Box::new(Copies {
                act_before,
                called_by,
            })
        });
        let id = self.id.clone();
        self.remains = Remains::default();
        Delivered { id, copies }
    }

    /// Returns the last server time at which a copy of any request may act.
    fn void_by(&self) -> Option<u64> {
        let marked = self.client.keeps(Rule::MarkCopies);
        marked.then_some(self.remains.act_before())
    }

    /// Returns how the entry that has to be removed is notified. `None` if no entry can exist.
    fn entry(&self) -> Option<Box<CalledBy>> {
        let may_exist = self.remains.may_wait() && self.client.keeps(Rule::StrikeOut);
        may_exist.then(|| Box::new(self.called_by.clone()))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.remains.is_any() || !self.client.keeps(Rule::UndoAbandoned) {
            return;
        }
        self.client.enqueue_release(PendingRelease {
            primitive: Arc::clone(&self.primitive),
            owner: self.owner.clone(),
            attempt: self.id.clone(),
            part: None,
            void_by: self.void_by(),
            copies: self.remains.has_copies(),
            called_by: self.entry(),
            next_waiter: None,
            give_up_at: self.client.now()
                // The allowance is added twice, for a server whose clock is behind.
                + self.client.lease_on_server(self.client.lease_on_server(self.lease))
                + ServerClock::REACH * 2,
        });
    }
}
