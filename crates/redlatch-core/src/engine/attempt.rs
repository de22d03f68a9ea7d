//! What one acquisition may have taken, and the undoing of it.

use std::{sync::Arc, time::Duration};

use super::PendingRelease;
use crate::{
    Client, Owner,
    base::{
        owner::AttemptId,
        primitive::{Primitive, Token},
        rules::Rule,
    },
    net::{CalledBy, Wakes},
    protocol::{server_clock::ServerClock, waiter::WaitStrategy},
};

/// The undo guard of one acquisition: armed before its first request is sent, and disarmed only
/// when its grant is delivered.
///
/// Dropping it undoes in the background whatever the requests have done or may still do.
#[derive(Debug)]
pub(super) struct Attempt {
    client: Client,
    primitive: Arc<dyn Primitive>,
    owner: Owner,
    id: AttemptId,
    called_by: CalledBy,
    /// Where that is; empty if it cannot be called.
    address: String,
    lease: Duration,
    /// Requests sent that were neither answered nor surely not executed.
    outstanding: u32,
    /// The largest `by` of all requests sent.
    act_before: u64,
    /// A busy answer may have registered us.
    registered: bool,
    /// A grant has been answered.
    granted: bool,
}

/// What is known of a delivered attempt's requests.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    pub(super) id: AttemptId,
    /// Boxed, since nearly none has any.
    pub(super) copies: Option<Box<Copies>>,
}

/// Requests of an attempt that may still act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    /// The last server time at which they may.
    pub(super) act_before: u64,
    /// Where they may enter it as a waiter once its hold is over; empty if they do not.
    pub(super) address: String,
}

impl Attempt {
    pub(super) fn new(
        client: &Client,
        primitive: &Arc<dyn Primitive>,
        owner: &Owner,
        lease: Duration,
        strategy: WaitStrategy,
    ) -> Self {
        let id = AttemptId::draw(client.numbers());
        let called_by = CalledBy {
            wakes: client.wakes(primitive.key().slot()),
            silent: matches!(strategy, WaitStrategy::Poll(_)),
        };
        let address = called_by.address(id.number());
        Self {
            client: client.clone(),
            primitive: Arc::clone(primitive),
            owner: owner.clone(),
            id,
            called_by,
            address,
            lease,
            outstanding: 0,
            act_before: 0,
            registered: false,
            granted: false,
        }
    }

    /// Makes an attempt at each of `primitives`, all with one id, for one request at all of them.
    /// They cannot be woken.
    pub(super) fn for_all(
        client: &Client,
        primitives: &[Arc<dyn Primitive>],
        owner: &Owner,
        lease: Duration,
    ) -> Vec<Self> {
        let id = AttemptId::draw(client.numbers());
        let attempt = |primitive: &Arc<dyn Primitive>| Self {
            client: client.clone(),
            primitive: Arc::clone(primitive),
            owner: owner.clone(),
            id: id.clone(),
            called_by: CalledBy {
                wakes: client.wakes(primitive.key().slot()),
                silent: true,
            },
            address: String::new(),
            lease,
            outstanding: 0,
            act_before: 0,
            registered: false,
            granted: false,
        };
        primitives.iter().map(attempt).collect()
    }

    pub(super) const fn id(&self) -> &AttemptId {
        &self.id
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Is to be woken over the channel that its slot's shard has now; tells whether that is another
    /// than before. What is registered under the one before is called in vain at most once.
    pub(super) fn follow_slot(&mut self) -> bool {
        let wakes = self.client.wakes(self.primitive.key().slot());
        let moved = !Arc::ptr_eq(&wakes, self.wakes());
        if moved {
            self.called_by.wakes = wakes;
            self.address = self.called_by.address(self.id.number());
        }
        moved
    }

    /// Returns where wakes for it go.
    pub(super) const fn wakes(&self) -> &Arc<Wakes> {
        &self.called_by.wakes
    }

    /// Returns whereby it is called.
    pub(super) const fn called_by(&self) -> &CalledBy {
        &self.called_by
    }

    /// A request is about to be sent.
    pub(super) fn sending(&mut self, act_before: u64, register: bool) {
        self.act_before = self.act_before.max(act_before);
        self.outstanding += 1;
        self.registered |= register;
    }

    /// A request was answered, or was surely not executed.
    pub(super) const fn answered(&mut self) {
        self.outstanding -= 1;
    }

    /// The answer was a grant, which has to be delivered or undone.
    pub(super) const fn granted(&mut self) {
        self.granted = true;
    }

    /// Tells whether requests may act that were not answered.
    pub(super) const fn has_copies(&self) -> bool {
        self.outstanding > 0
    }

    /// The grant is delivered: its guard answers for it from now on.
    pub(super) fn deliver(&mut self) -> Delivered {
        let copies = self.void_by().map(|act_before| {
            let address = self.take_address();
            Box::new(Copies {
                act_before,
                address,
            })
        });
        let id = self.id.clone();
        self.outstanding = 0;
        self.granted = false;
        self.registered = false;
        Delivered { id, copies }
    }
}

impl Attempt {
    /// Returns the last server time at which a copy may act, if copies may be under way.
    fn void_by(&self) -> Option<u64> {
        (self.has_copies() && self.client.keeps(Rule::MarkCopies)).then_some(self.act_before)
    }

    /// Returns where it is to be struck out; empty if it waits nowhere.
    fn take_address(&mut self) -> String {
        if self.registered && self.client.keeps(Rule::StrikeOut) {
            std::mem::take(&mut self.address)
        } else {
            String::new()
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.outstanding == 0 && !self.granted && !self.registered {
            return;
        }
        if !self.client.keeps(Rule::UndoAbandoned) {
            return;
        }
        let address = self.take_address();
        self.client.enqueue_release(PendingRelease {
            primitive: Arc::clone(&self.primitive),
            owner: self.owner.clone(),
            attempt: self.id.clone(),
            token: None::<Token>,
            serial: None,
            void_by: self.void_by(),
            address,
            undo: true,
            left: 0,
            forgotten: 0,
            next_waiter: None,
            give_up_at: self.client.now()
                // Once more for a server whose clock is behind.
                + self.client.lease_on_server(self.client.lease_on_server(self.lease))
                + ServerClock::REACH * 2,
        });
    }
}
