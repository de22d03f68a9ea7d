//! The queue of the releaser. This module holds no lock across an await.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use tokio::sync::oneshot;

use super::{PendingRelease, Releaser};
use crate::{
    Owner,
    base::{
        observe::{self, Labels},
        owner::AttemptId,
        primitive::Primitive,
        sync::{MutexGuard, lock},
        timeouts,
    },
    net::{CalledBy, Net},
    protocol::{name::Key, small_map::SmallMap, time::Moment},
};

/// All unanswered releases and undos, and the progress of those of each name.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Items to send, in the order of their arrival.
    fresh: Vec<Kept>,
    /// Items to send again, by the time at which they are due.
    later: BTreeMap<(Moment, u64), Kept>,
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

/// One release or undo, and its progress, in the short form in which it waits.
#[derive(Debug)]
pub(super) struct Kept {
    left: Left,
    progress: Progress,
}

/// One release or undo that is being sent, and its progress.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) pending: PendingRelease,
    pub(super) progress: Progress,
}

/// The progress of an item.
#[derive(Debug, Default)]
pub(super) struct Progress {
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

impl Releaser {
    /// Queues a release or undo.
    pub(crate) fn push(&self, pending: PendingRelease) {
        let mut queue = self.queue();
        if queue.stopped {
            return;
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let name = queue.names.get_or_default(pending.primitive.key());
        name.pushed += 1;
        name.unanswered += 1;
        let left = Left::of(pending, name);
        let progress = Progress::default();
        queue.fresh.push(Kept { left, progress });
        drop(queue);
        self.nudge.notify_one();
    }

    /// Sends an item again later. Unless the server refused it, later requests for the name wait
    /// for it again.
    pub(super) fn put_back(&self, net: &Net, mut item: Item, refused: bool) {
        let Item { pending, progress } = &mut item;
        progress.failures += 1;
        let delay = timeouts::RELEASE_RETRY.delay(progress.failures, net.world.runtime.random());
        let at = net.world.now() + delay;
        let mut queue = self.queue();
        let id = queue.next_id;
        queue.next_id += 1;
        let Some(name) = queue.names.get_mut(pending.primitive.key()) else {
            return;
        };
        if refused {
            name.pass(progress, Ahead::Settled);
        } else if std::mem::take(&mut progress.sent) {
            name.sent.reached -= 1;
        }
        let Item { pending, progress } = item;
        let left = Left::of(pending, name);
        queue.later.insert((at, id), Kept { left, progress });
    }

    /// Takes the items to send at `now`. Also returns whether a caller waits for them, and the time
    /// at which the next item is due.
    pub(super) fn take_due(&self, now: Moment) -> (Vec<Kept>, bool, Moment) {
        let mut queue = self.queue();
        let mut due = std::mem::take(&mut queue.fresh);
        while let Some(first) = queue.later.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        let next = queue.later.first_key_value();
        let next = next.map_or(Moment::FAR_FUTURE, |((at, _), _)| *at);
        (due, std::mem::take(&mut queue.hurried), next)
    }

    /// Records that these items are on their way.
    pub(super) fn on_their_way(&self, items: &mut [Item]) {
        let mut queue = self.queue();
        for item in items {
            if let Some(name) = queue.names.get_mut(item.pending.primitive.key()) {
                name.pass(&mut item.progress, Ahead::Sent);
            }
        }
    }

    /// Removes an item, which has `succeeded` or was given up.
    pub(super) fn done(&self, mut item: Item, succeeded: bool) {
        if succeeded && item.pending.part.is_none() {
            observe::undone(&Labels::of(item.pending.primitive.as_ref()));
        }
        let mut queue = self.queue();
        let Some(name) = queue.names.get_mut(item.pending.primitive.key()) else {
            // `abandon` has dropped all items in the meantime.
            return;
        };
        // Callers read the count without the lock as soon as they wake.
        let last = self.unanswered.fetch_sub(1, Ordering::Relaxed) == 1;
        name.pass(&mut item.progress, Ahead::Settled);
        name.unanswered -= 1;
        if name.unanswered == 0 {
            // Removing the name drops the senders, which ends the wait of every caller.
            queue.names.remove(item.pending.primitive.key());
        }
        drop(queue);
        if last {
            self.drained.notify_waiters();
        }
    }

    /// Returns a future that resolves when every item queued now for `key` has reached the stage
    /// `ahead`. `None` if none is outstanding. The releaser sends the queue at once.
    pub(crate) fn ahead(
        &self,
        key: &Key,
        ahead: Ahead,
    ) -> Option<impl Future<Output = ()> + use<>> {
        // The relaxed read is enough for a release of the same task, whose count precedes this
        // read.
        if self.len() == 0 {
            return None;
        }
        let mut queue = self.queue();
        let id = queue.next_id;
        let name = queue.names.get_mut(key)?;
        let pushed = name.pushed;
        let stage = match ahead {
            Ahead::Sent => &mut name.sent,
            Ahead::Settled => &mut name.settled,
        };
        if stage.reached >= pushed {
            return None;
        }
        let (tell, told) = oneshot::channel();
        stage.waiting.insert((pushed, id), tell);
        queue.next_id += 1;
        queue.hurried = true;
        drop(queue);
        self.nudge.notify_one();
        Some(async move {
            // An error means that the name has no items left.
            let _ = told.await;
        })
    }

    /// Returns the number of unanswered items.
    pub(crate) fn len(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Ends all background work of the client when the queue is empty.
    pub(crate) fn finish(&self) {
        self.queue().closing = true;
        self.nudge.notify_one();
    }

    /// Tells whether the client closes.
    pub(super) fn is_closing(&self) -> bool {
        self.queue().closing
    }

    /// Drops the queue. The leases end the holds: nothing sends the releases any more.
    pub(crate) fn abandon(&self) {
        let mut queue = self.queue();
        let stopped = Queue {
            stopped: true,
            ..Queue::default()
        };
        let left = std::mem::replace(&mut *queue, stopped);
        self.unanswered.store(0, Ordering::Relaxed);
        drop(queue);
        // The items are dropped without the lock, since they may have destructors of their own.
        drop(left);
        self.drained.notify_waiters();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

impl Kept {
    pub(super) fn slot(&self) -> u16 {
        let primitive = match &self.left {
            Left::Release(pending) => &pending.primitive,
            Left::Undo(undo) => &undo.common.primitive,
        };
        primitive.key().slot()
    }

    pub(super) fn take(self) -> Item {
        let pending = match self.left {
            Left::Release(pending) => *pending,
            Left::Undo(undo) => undo.pending_release(),
        };
        let progress = self.progress;
        Item { pending, progress }
    }
}

impl Name {
    /// Records that an item has reached a stage. Each item counts once per stage, and a settled
    /// item counts as sent, too.
    fn pass(&mut self, progress: &mut Progress, ahead: Ahead) {
        if !std::mem::replace(&mut progress.sent, true) {
            self.sent.advance();
        }
        if ahead == Ahead::Settled && !std::mem::replace(&mut progress.settled, true) {
            self.settled.advance();
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
