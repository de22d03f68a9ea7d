//! The watchers of a client: per object, one look at a time answers all of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::Notify;

use crate::{
    Error,
    base::sync::lock,
    protocol::{
        lookout::{Lookout, Seen, Sight, Verdict},
        name::Key,
        time::Moment,
    },
};

/// The objects that somebody in this client watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    objects: Mutex<BTreeMap<Key, Object>>,
}

#[derive(Debug, Default)]
struct Object {
    lookout: Lookout<Error>,
    bells: BTreeMap<u64, Arc<Notify>>,
}

/// The place of one watcher. Dropping it leaves.
#[derive(Debug)]
pub(super) struct Post {
    watches: Arc<Watches>,
    key: Key,
    id: u64,
    bell: Arc<Notify>,
}

/// A look under way. Dropped without an answer, it lets the next watcher look.
#[derive(Debug)]
pub(super) struct Looking<'a> {
    post: &'a Post,
    number: u64,
    phases: Vec<u64>,
    answered: bool,
}

impl Watches {
    /// Returns the number of objects that somebody watches.
    pub(crate) fn len(&self) -> usize {
        self.objects().len()
    }

    /// Adds a watcher of `key`, of `phase` if it knows it.
    pub(super) fn join(self: &Arc<Self>, key: &Key, phase: Option<u64>) -> Post {
        let bell = Arc::new(Notify::new());
        let mut objects = self.objects();
        let object = objects.entry(key.clone()).or_default();
        let id = object.lookout.join(phase);
        object.bells.insert(id, Arc::clone(&bell));
        Post {
            watches: Arc::clone(self),
            key: key.clone(),
            id,
            bell,
        }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<Key, Object>> {
        lock(&self.objects)
    }
}

impl Object {
    fn ring(&self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            if let Some(bell) = self.bells.get(&id) {
                bell.notify_one();
            }
        }
    }
}

impl Post {
    /// Asks for a look that begins from now on.
    pub(super) fn want(&self) {
        self.with(|object| {
            let after = object.lookout.begun();
            object.lookout.want(self.id, after);
        });
    }

    /// Asks for a look that begins after message `number` came, one for all who hear it.
    pub(super) fn hear(&self, number: u64) {
        self.with(|object| object.lookout.hear(self.id, number));
    }

    /// Asks for a look, however old.
    pub(super) fn want_any(&self) {
        self.with(|object| object.lookout.want(self.id, 0));
    }

    /// Begins a look, unless another is at it that has until `until` as well.
    pub(super) fn begin(&self, now: Moment, until: Moment) -> Option<Looking<'_>> {
        let (number, phases) = self.with(|object| object.lookout.begin(now, until))??;
        Some(Looking {
            post: self,
            number,
            phases,
            answered: false,
        })
    }

    /// Returns what this watcher was told since it last asked.
    pub(super) fn told(&self) -> Option<Verdict<Error>> {
        self.with(|object| object.lookout.told(self.id)).flatten()
    }

    /// Returns the phase this watcher waits for, once it is known.
    pub(super) fn phase(&self) -> Option<u64> {
        self.with(|object| object.lookout.phase(self.id)).flatten()
    }

    /// Returns the number of the last look that has begun, anybody's.
    pub(super) fn begun(&self) -> u64 {
        self.with(|object| object.lookout.begun())
            .unwrap_or_default()
    }

    /// Returns the last look that was answered, to anybody.
    pub(super) fn last(&self) -> Option<Seen> {
        self.with(|object| object.lookout.last().cloned()).flatten()
    }

    /// Waits until this watcher was told something, or may look.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    fn with<R>(&self, look: impl FnOnce(&mut Object) -> R) -> Option<R> {
        self.watches.objects().get_mut(&self.key).map(look)
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        let mut objects = self.watches.objects();
        let Some(object) = objects.get_mut(&self.key) else {
            return;
        };
        object.bells.remove(&self.id);
        let next = object.lookout.leave(self.id);
        object.ring(next);
        if object.lookout.is_empty() {
            objects.remove(&self.key);
        }
    }
}

impl Looking<'_> {
    /// Returns the phases to ask for.
    pub(super) fn phases(&self) -> &[u64] {
        &self.phases
    }

    /// Tells everybody what the look, sent at `at`, has shown.
    pub(super) fn saw(mut self, at: Moment, sight: Sight) {
        self.answered = true;
        self.post.with(|object| {
            let woken = object.lookout.saw(self.number, at, sight);
            object.ring(woken);
        });
    }

    /// Tells everybody who asked that looking will never succeed.
    pub(super) fn failed(mut self, why: &Error) {
        self.answered = true;
        self.post.with(|object| {
            let woken = object.lookout.failed(self.number, why);
            object.ring(woken);
        });
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.post.with(|object| {
                let next = object.lookout.gave_up(self.number);
                object.ring(next);
            });
        }
    }
}
