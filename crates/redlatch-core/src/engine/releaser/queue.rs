//! The unanswered releases and undos of one client. This module holds no lock across an await.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use tokio::sync::oneshot;

use super::PendingRelease;
use crate::{
    Owner,
    base::{
        owner::AttemptId,
        primitive::Primitive,
        sync::{AtomicUsize, Mutex, MutexGuard, lock},
    },
    net::CalledBy,
    protocol::{name::Key, small_map::SmallMap, time::Moment},
};

/// All unanswered releases and undos, and the progress of those of each name.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// The number of unanswered items. Every acquisition reads it without the lock.
    unanswered: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Items to send, in the order of their arrival.
    fresh: Vec<Item>,
    /// Items to send again, by the time at which they are due.
    later: BTreeMap<(Moment, u64), Item>,
    next_id: u64,
    names: SmallMap<Key, Name>,
    /// Whether a caller waits for the queue to be sent.
    hurried: bool,
    closing: bool,
    /// Whether all background work has ended. A release that arrives now is one that `close` has
    /// enqueued, or one whose hold ends with its lease.
    stopped: bool,
}

/// The releases and undos of one name.
#[derive(Debug, Default)]
struct Name {
    /// The number of items added since the name last had none.
    pushed: u64,
    /// The items that are on their way: a later request to the same server over the same link
    /// arrives behind them.
    sent: Stage,
    /// The items that are answered, refused or given up.
    settled: Stage,
    unanswered: u64,
    /// The data that its undos share, as of the last one.
    common: Option<Arc<Common>>,
}

/// A stage in the progress of a name's items: how many have reached it, and the callers that wait
/// for more to reach it.
#[derive(Debug, Default)]
struct Stage {
    reached: u64,
    /// The waiting callers, by the count that they wait for and a unique id. Each is notified once,
    /// however many items reach the stage.
    waiting: BTreeMap<(u64, u64), oneshot::Sender<()>>,
}

/// The stage that a release must reach before another request for its name is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// It is on its way, over the link that the request uses, too.
    Sent,
    /// The server has answered it.
    Settled,
}

/// One release or undo.
#[derive(Debug)]
pub(super) struct Item {
    left: Left,
    sent: Sent,
}

/// The progress of an item.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) failures: u32,
    /// Whether the server has run it without the keys of the queue. The hold is over, and a
    /// waiter's entry may be left.
    pub(super) bare: bool,
    sent: bool,
    settled: bool,
}

/// The content of an item. Undos have a small form, since many waiters may give up at the same
/// time.
#[derive(Debug)]
enum Left {
    Release(Box<PendingRelease>),
    Undo(Undo),
}

#[derive(Debug)]
struct Undo {
    common: Arc<Common>,
    owner: Owner,
    attempt: u64,
    void_by: Option<u64>,
    copies: bool,
    /// Whether the server may have an entry of the attempt.
    registered: bool,
    /// The nonce of the order, if there is one.
    nonce: u64,
    give_up_at: Moment,
}

/// The data that the undos of one name and kind share.
#[derive(Debug)]
struct Common {
    primitive: Arc<dyn Primitive>,
    /// How they are notified, but for the nonce of the order.
    called_by: Option<CalledBy>,
}

impl Queue {
    /// Adds a release or undo. Returns `false` if the queue has stopped.
    pub(super) fn push(&self, pending: PendingRelease) -> bool {
        let mut inner = self.inner();
        if inner.stopped {
            return false;
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let name = inner.names.get_or_default(pending.primitive.key());
        name.pushed += 1;
        name.unanswered += 1;
        let left = Left::of(pending, name);
        let sent = Sent::default();
        inner.fresh.push(Item { left, sent });
        true
    }

    /// Tells whether the client closes.
    pub(super) fn is_closing(&self) -> bool {
        self.inner().closing
    }

    /// Puts back an item that is to be sent again at `at`. Unless the server refused it, later
    /// requests for the name wait for it again.
    pub(super) fn put_back(
        &self,
        pending: PendingRelease,
        mut sent: Sent,
        refused: bool,
        at: Moment,
    ) {
        let mut inner = self.inner();
        let id = inner.next_id;
        inner.next_id += 1;
        let Some(name) = inner.names.get_mut(pending.primitive.key()) else {
            return;
        };
        if refused {
            name.pass(&mut sent, Ahead::Settled);
        } else if std::mem::take(&mut sent.sent) {
            name.sent.reached -= 1;
        }
        let left = Left::of(pending, name);
        inner.later.insert((at, id), Item { left, sent });
    }

    /// Takes the items to send at `now`. Also returns whether a caller waits for them, and the time
    /// at which the next item is due.
    pub(super) fn take_due(&self, now: Moment) -> (Vec<Item>, bool, Moment) {
        let mut inner = self.inner();
        let mut due = std::mem::take(&mut inner.fresh);
        while let Some(first) = inner.later.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        let next = inner.later.first_key_value();
        let next = next.map_or(Moment::FAR_FUTURE, |((at, _), _)| *at);
        (due, std::mem::take(&mut inner.hurried), next)
    }

    /// Records that these items are on their way.
    pub(super) fn sent(&self, on_their_way: &mut [(PendingRelease, Sent)]) {
        let mut inner = self.inner();
        for (pending, sent) in on_their_way {
            if let Some(name) = inner.names.get_mut(pending.primitive.key()) {
                name.pass(sent, Ahead::Sent);
            }
        }
    }

    /// Records that this item was answered or given up. Returns whether it was the last.
    pub(super) fn done(&self, pending: &PendingRelease, mut sent: Sent) -> bool {
        let mut inner = self.inner();
        let key = pending.primitive.key();
        let Some(name) = inner.names.get_mut(key) else {
            // `stop` has dropped all items in the meantime.
            return false;
        };
        // Callers read the count without the lock as soon as they wake.
        let last = self.unanswered.fetch_sub(1, Ordering::Relaxed) == 1;
        name.pass(&mut sent, Ahead::Settled);
        name.unanswered -= 1;
        if name.unanswered == 0 {
            // Removing the name drops the senders, which ends the wait of every caller.
            inner.names.remove(key);
        }
        last
    }

    /// Returns a future that resolves when every item queued now for `key` has reached the stage
    /// `ahead`. `None` if none is outstanding.
    pub(super) fn ahead(
        &self,
        key: &Key,
        ahead: Ahead,
    ) -> Option<impl Future<Output = ()> + use<>> {
        // The relaxed read is enough for a release of the same task, whose count precedes this
        // read.
        if self.len() == 0 {
            return None;
        }
        let mut inner = self.inner();
        let id = inner.next_id;
        let name = inner.names.get_mut(key)?;
        let pushed = name.pushed;
        let stage = name.stage(ahead);
        if stage.reached >= pushed {
            return None;
        }
        let (tell, told) = oneshot::channel();
        stage.waiting.insert((pushed, id), tell);
        inner.next_id += 1;
        inner.hurried = true;
        Some(async move {
            // An error means that the name has no items left.
            let _ = told.await;
        })
    }

    /// Returns the number of unanswered items.
    pub(super) fn len(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Records that no more items will be added.
    pub(super) fn close(&self) {
        self.inner().closing = true;
    }

    /// Tells whether the queue is closed and empty.
    pub(super) fn is_done(&self) -> bool {
        self.inner().closing && self.len() == 0
    }

    /// Drops all items. Nothing is sent any more.
    pub(super) fn stop(&self) {
        let mut inner = self.inner();
        let stopped = Inner {
            stopped: true,
            ..Inner::default()
        };
        let left = std::mem::replace(&mut *inner, stopped);
        self.unanswered.store(0, Ordering::Relaxed);
        drop(inner);
        // The items are dropped without the lock, since they may have destructors of their own.
        drop(left);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Item {
    pub(super) fn slot(&self) -> u16 {
        let primitive = match &self.left {
            Left::Release(pending) => &pending.primitive,
            Left::Undo(undo) => &undo.common.primitive,
        };
        primitive.key().slot()
    }

    pub(super) fn take(self) -> (PendingRelease, Sent) {
        let pending = match self.left {
            Left::Release(pending) => *pending,
            Left::Undo(undo) => undo.pending_release(),
        };
        (pending, self.sent)
    }
}

impl Name {
    /// Records that an item has reached a stage. Each item counts once per stage, and a settled
    /// item counts as sent, too.
    fn pass(&mut self, sent: &mut Sent, ahead: Ahead) {
        if !std::mem::replace(&mut sent.sent, true) {
            self.sent.advance();
        }
        if ahead == Ahead::Settled && !std::mem::replace(&mut sent.settled, true) {
            self.settled.advance();
        }
    }

    const fn stage(&mut self, ahead: Ahead) -> &mut Stage {
        match ahead {
            Ahead::Sent => &mut self.sent,
            Ahead::Settled => &mut self.settled,
        }
    }

    /// Returns the shared data for undos of `primitive` that are notified so. An undo without an
    /// entry fits any.
    fn common(
        &mut self,
        primitive: &Arc<dyn Primitive>,
        called_by: Option<&CalledBy>,
    ) -> Arc<Common> {
        let known = self.common.as_ref().filter(|known| {
            let ours = &known.primitive;
            let same = Arc::ptr_eq(ours, primitive)
                || ours.kind() == primitive.kind()
                    && ours.form() == primitive.form()
                    && ours.class() == primitive.class();
            let called = |by| known.called_by.as_ref().is_some_and(|of| alike(of, by));
            same && called_by.is_none_or(called)
        });
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let common = Arc::new(Common {
            primitive: Arc::clone(primitive),
            called_by: called_by.cloned(),
        });
        self.common = Some(Arc::clone(&common));
        common
    }
}

impl Stage {
    fn advance(&mut self) {
        self.reached += 1;
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= self.reached
        {
            // The waiting caller may have gone.
            let _ = first.remove().send(());
        }
    }
}

impl Left {
    fn of(pending: PendingRelease, name: &mut Name) -> Self {
        if pending.part.is_some() {
            return Self::Release(Box::new(pending));
        }
        let called_by = pending.called_by.as_deref();
        let order = called_by.and_then(|called_by| called_by.order);
        Self::Undo(Undo {
            common: name.common(&pending.primitive, called_by),
            registered: called_by.is_some(),
            nonce: order.map_or(0, |order| order.nonce),
            owner: pending.owner,
            attempt: pending.attempt.number(),
            void_by: pending.void_by,
            copies: pending.copies,
            give_up_at: pending.give_up_at,
        })
    }
}

impl Undo {
    fn pending_release(self) -> PendingRelease {
        let Self { common, owner, .. } = self;
        let called_by = common.called_by.clone().filter(|_| self.registered);
        let called_by = called_by.map(|mut called_by| {
            if let Some(order) = &mut called_by.order {
                order.nonce = self.nonce;
            }
            Box::new(called_by)
        });
        PendingRelease {
            primitive: Arc::clone(&common.primitive),
            attempt: AttemptId::of(&owner, self.attempt),
            owner,
            part: None,
            void_by: self.void_by,
            copies: self.copies,
            called_by,
            next_waiter: None,
            give_up_at: self.give_up_at,
        }
    }
}

/// Tells whether two waiters are notified in the same way, but for the nonces of their orders.
fn alike(one: &CalledBy, other: &CalledBy) -> bool {
    let terms = |of: &CalledBy| of.order.map(|order| (order.lease, order.ttl));
    Arc::ptr_eq(&one.wakes, &other.wakes)
        && one.silent == other.silent
        && terms(one) == terms(other)
}
