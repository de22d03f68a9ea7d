//! The watchers of a client. For each object, one query at a time answers all of them.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::Notify;

use crate::{
    Error,
    base::{
        primitive::Watched,
        sync::{Mutex, MutexGuard, lock},
    },
    protocol::{
        name::Key,
        phase_watch::{PhaseWatch, Seen, Snapshot, WatchResult},
        time::Moment,
    },
};

/// The objects that this client watches.
#[derive(Debug, Default)]
pub(crate) struct PhaseWatches {
    objects: Mutex<BTreeMap<Id, Object>>,
}

/// The kind and the key of an object. Queries of one kind say nothing about another of the name.
type Id = (&'static str, Key);

#[derive(Debug, Default)]
struct Object {
    phase_watch: PhaseWatch<Error>,
    notifies: BTreeMap<u64, Arc<Notify>>,
}

/// The registration of one watcher. Dropping it removes the watcher.
#[derive(Debug)]
pub(super) struct WatchSlot {
    watches: Arc<PhaseWatches>,
    object: Id,
    id: u64,
    notify: Arc<Notify>,
}

/// A query in progress. Dropped without an answer, it lets the next watcher query.
#[derive(Debug)]
pub(super) struct Looking<'a> {
    slot: &'a WatchSlot,
    number: u64,
    phases: Vec<u64>,
    answered: bool,
}

impl PhaseWatches {
    /// Returns the number of watched objects.
    pub(crate) fn len(&self) -> usize {
        self.objects().len()
    }

    /// Adds a watcher of `watched`, and of `phase` if the watcher knows the phase.
    pub(super) fn join(self: &Arc<Self>, watched: &dyn Watched, phase: Option<u64>) -> WatchSlot {
        let object = (watched.kind(), watched.key().clone());
        let notify = Arc::new(Notify::new());
        let mut objects = self.objects();
        let watchers = objects.entry(object.clone()).or_default();
        let id = watchers.phase_watch.join(phase);
        watchers.notifies.insert(id, Arc::clone(&notify));
        WatchSlot {
            watches: Arc::clone(self),
            object,
            id,
            notify,
        }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<Id, Object>> {
        lock(&self.objects)
    }
}

impl Object {
    fn ring(&self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            if let Some(notify) = self.notifies.get(&id) {
                notify.notify_one();
            }
        }
    }
}

impl WatchSlot {
    /// Requests a query that begins from now on, or a query of any age unless it is to be `afresh`.
    /// With the number of a message, requests a query that begins after the arrival of that. All
    /// watchers that received the message share it.
    pub(super) fn want(&self, message: Option<u64>, afresh: bool) {
        self.with(|Object { phase_watch, .. }| match message {
            Some(number) => phase_watch.hear(self.id, number),
            None if afresh => phase_watch.want(self.id, phase_watch.begun()),
            None => phase_watch.want(self.id, 0),
        });
    }

    /// Begins a query, unless another is in progress. `until` is the time by which this query has
    /// to end.
    pub(super) fn begin(&self, now: Moment, until: Moment) -> Option<Looking<'_>> {
        let (number, phases) = self.with(|object| object.phase_watch.begin(now, until))??;
        Some(Looking {
            slot: self,
            number,
            phases,
            answered: false,
        })
    }

    /// Takes the result that this watcher has received since the last call.
    pub(super) fn take_result(&self) -> Option<WatchResult<Error>> {
        self.with(|object| object.phase_watch.take_result(self.id))
            .flatten()
    }

    /// Returns the phase that this watcher waits for, once it is known.
    pub(super) fn phase(&self) -> Option<u64> {
        self.with(|object| object.phase_watch.phase(self.id))
            .flatten()
    }

    /// Returns the number of the last query that any watcher has begun.
    pub(super) fn begun(&self) -> u64 {
        self.with(|object| object.phase_watch.begun())
            .unwrap_or_default()
    }

    /// Returns the last answered query of any watcher.
    pub(super) fn last(&self) -> Option<Seen> {
        self.with(|object| object.phase_watch.last().cloned())
            .flatten()
    }

    /// Waits until this watcher has a result, or may query.
    pub(super) async fn rung(&self) {
        self.notify.notified().await;
    }

    fn with<R>(&self, look: impl FnOnce(&mut Object) -> R) -> Option<R> {
        self.watches.objects().get_mut(&self.object).map(look)
    }
}

impl Drop for WatchSlot {
    fn drop(&mut self) {
        let mut objects = self.watches.objects();
        let Some(object) = objects.get_mut(&self.object) else {
            return;
        };
        object.notifies.remove(&self.id);
        let next = object.phase_watch.leave(self.id);
        object.ring(next);
        if object.phase_watch.is_empty() {
            objects.remove(&self.object);
        }
    }
}

impl Looking<'_> {
    /// Returns the phases to query.
    pub(super) fn phases(&self) -> &[u64] {
        &self.phases
    }

    /// Passes the result of the query, sent at `at`, to all watchers.
    pub(super) fn saw(self, at: Moment, snapshot: Snapshot) {
        let number = self.number;
        self.end(|phase_watch| phase_watch.saw(number, at, snapshot));
    }

    /// Tells every watcher that requested the query that no query can succeed.
    pub(super) fn failed(self, why: &Error) {
        let number = self.number;
        self.end(|phase_watch| phase_watch.failed(number, why));
    }

    fn end(mut self, result: impl FnOnce(&mut PhaseWatch<Error>) -> Vec<u64>) {
        self.answered = true;
        self.slot.with(|object| {
            let woken = result(&mut object.phase_watch);
            object.ring(woken);
        });
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.slot.with(|object| {
                let next = object.phase_watch.gave_up(self.number);
                object.ring(next);
            });
        }
    }
}
