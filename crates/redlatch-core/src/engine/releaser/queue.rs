//! The releases and undos of one client that the server has not answered. No await in here.

use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::oneshot;

use super::PendingRelease;
use crate::{
    Owner,
    base::{owner::AttemptId, primitive::Primitive, sync::lock},
    protocol::{name::Key, small_map::SmallMap, time::Moment},
};

/// All releases and undos that are not answered, and how far those of each name have come.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// How many there are. Read without the lock by everybody who asks for a name.
    unanswered: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    /// To be sent, in the order in which they came.
    fresh: Vec<Item>,
    /// To be sent again, by when.
    later: BTreeMap<(Moment, u64), Item>,
    next_id: u64,
    names: SmallMap<Key, Name>,
    /// Somebody waits for what is queued to go out.
    hurried: bool,
    closing: bool,
    /// All background work has ended: what comes now is a release that `close` has enqueued, or one
    /// whose hold ends with its lease.
    stopped: bool,
}

/// The releases and undos of one name.
#[derive(Debug, Default)]
struct Name {
    /// How many have come since the name was last without any.
    pushed: u64,
    /// They are on their way: what is sent to the same server over the same link comes behind them.
    sent: Stage,
    /// They are answered, refused or given up.
    settled: Stage,
    unanswered: u64,
    /// What its undos have in common, as it was with the last one.
    common: Option<Arc<Common>>,
}

/// How many releases and undos of a name have come so far, of those that ever came, and who waits
/// for more of them to.
#[derive(Debug, Default)]
struct Stage {
    reached: u64,
    /// By how many they wait for. Each is told once, however many come that far.
    waiting: BTreeMap<(u64, u64), oneshot::Sender<()>>,
}

/// What has to be true of a release before another request for its name is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// It is on its way over the link that the request goes by, too.
    Sent,
    /// The server has answered it.
    Settled,
}

/// One release or undo.
#[derive(Debug)]
pub(super) struct Item {
    left: Left,
    failures: u32,
    sent: bool,
    settled: bool,
}

/// What is to be ended. Undos are many when many give up waiting, so that each has as little as it
/// can.
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
    void_by: Option<NonZeroU64>,
    registered: bool,
    give_up_at: Moment,
}

/// What undos of one name and kind have in common.
#[derive(Debug)]
struct Common {
    primitive: Arc<dyn Primitive>,
    /// A waiter's address without its number.
    address: String,
}

impl Queue {
    /// Adds a release or undo; `false` if nothing is sent any more.
    pub(super) fn push(&self, pending: PendingRelease) -> bool {
        let mut inner = self.inner();
        if inner.stopped {
            return false;
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let name = inner.names.get_or_default(pending.primitive.key());
        name.pushed += 1;
        name.unanswered += 1;
        let item = Item {
            left: Left::of(pending, name),
            failures: 0,
            sent: false,
            settled: false,
        };
        inner.fresh.push(item);
        true
    }

    /// Puts back what is to be sent again at `at`. Whoever asks for the name comes behind it,
    /// unless it was refused.
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
        let item = Item {
            left: Left::of(pending, name),
            failures: sent.failures,
            sent: sent.sent,
            settled: sent.settled,
        };
        inner.later.insert((at, id), item);
    }

    /// Takes what is to be sent at `now`; also returns whether somebody waits for it, and when the
    /// next is due.
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

    /// These are on their way.
    pub(super) fn sent<'a>(
        &self,
        on_their_way: impl Iterator<Item = (&'a PendingRelease, &'a mut Sent)>,
    ) {
        let mut inner = self.inner();
        for (pending, sent) in on_their_way {
            if let Some(name) = inner.names.get_mut(pending.primitive.key()) {
                name.pass(sent, Ahead::Sent);
            }
        }
    }

    /// This one was answered or given up; returns whether it was the last.
    pub(super) fn done(&self, pending: &PendingRelease, mut sent: Sent) -> bool {
        let mut inner = self.inner();
        let key = pending.primitive.key();
        if let Some(name) = inner.names.get_mut(key) {
            name.pass(&mut sent, Ahead::Settled);
            name.unanswered -= 1;
            if name.unanswered == 0 {
                // Whoever waits for one of them learns it by that.
                inner.names.remove(key);
            }
            return self.unanswered.fetch_sub(1, Ordering::Relaxed) == 1;
        }
        // All was dropped meanwhile.
        false
    }

    /// Returns what resolves once all that is queued now for `key` has come so far; `None` if there
    /// is nothing to wait for.
    pub(super) fn ahead(
        &self,
        key: &Key,
        ahead: Ahead,
    ) -> Option<impl Future<Output = ()> + use<>> {
        // A release of this task came before, and so does what it has counted.
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
            // An error means that none is left.
            let _ = told.await;
        })
    }

    /// Returns how many are not answered.
    pub(super) fn len(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// No more will come.
    pub(super) fn close(&self) {
        self.inner().closing = true;
    }

    /// Tells whether no more will come and nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.inner().closing && self.len() == 0
    }

    /// Drops all; nothing is sent any more.
    pub(super) fn stop(&self) {
        let mut inner = self.inner();
        let stopped = Inner {
            stopped: true,
            ..Inner::default()
        };
        let left = std::mem::replace(&mut *inner, stopped);
        self.unanswered.store(0, Ordering::Relaxed);
        drop(inner);
        // What is dropped may have destructors of its own.
        drop(left);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// What is known of a release or undo that is taken out of the queue.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) failures: u32,
    sent: bool,
    settled: bool,
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
        let sent = Sent {
            failures: self.failures,
            sent: self.sent,
            settled: self.settled,
        };
        (pending, sent)
    }
}

impl Name {
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

    /// Returns what is common to the undos of `primitive` whose addresses begin with `address`, or
    /// that have none.
    fn common(&mut self, primitive: &Arc<dyn Primitive>, address: Option<&str>) -> Arc<Common> {
        let known = self.common.as_ref().filter(|known| {
            let ours = &known.primitive;
            let same = Arc::ptr_eq(ours, primitive)
                || ours.kind() == primitive.kind()
                    && ours.form() == primitive.form()
                    && ours.class() == primitive.class();
            same && address.is_none_or(|address| known.address == address)
        });
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let common = Arc::new(Common {
            primitive: Arc::clone(primitive),
            address: address.unwrap_or_default().to_owned(),
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
            // Whoever waited may have gone.
            let _ = first.remove().send(());
        }
    }
}

impl Left {
    fn of(pending: PendingRelease, name: &mut Name) -> Self {
        match Undo::of(&pending, name) {
            Some(undo) => Self::Undo(undo),
            None => Self::Release(Box::new(pending)),
        }
    }
}

impl Undo {
    /// Returns the short form of an undo that has one.
    fn of(pending: &PendingRelease, name: &mut Name) -> Option<Self> {
        let plain = pending.undo
            && pending.token.is_none()
            && pending.serial.is_none()
            && pending.next_waiter.is_none()
            && pending.left == 0
            && pending.forgotten == 0
            && pending.owner.client() == pending.attempt.client();
        let void_by = match pending.void_by {
            Some(void_by) => Some(NonZeroU64::new(void_by)?),
            None => None,
        };
        let attempt = pending.attempt.number();
        let registered = !pending.address.is_empty();
        let address = if registered {
            let (address, number) = pending.address.rsplit_once(' ')?;
            (number.parse() == Ok(attempt)).then_some(Some(address))?
        } else {
            None
        };
        plain.then(|| Self {
            common: name.common(&pending.primitive, address),
            owner: pending.owner.clone(),
            attempt,
            void_by,
            registered,
            give_up_at: pending.give_up_at,
        })
    }

    fn pending_release(self) -> PendingRelease {
        let Self { common, owner, .. } = self;
        let address = if self.registered {
            format!("{} {}", common.address, self.attempt)
        } else {
            String::new()
        };
        PendingRelease {
            primitive: Arc::clone(&common.primitive),
            attempt: AttemptId::of(&owner, self.attempt),
            owner,
            token: None,
            serial: None,
            void_by: self.void_by.map(NonZeroU64::get),
            address,
            undo: true,
            left: 0,
            forgotten: 0,
            next_waiter: None,
            give_up_at: self.give_up_at,
        }
    }
}
