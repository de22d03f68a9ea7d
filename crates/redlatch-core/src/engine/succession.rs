//! A name that goes on within the process: the next waiter asks right behind the release, and does not wait to be called.
//!
//! Nobody else must be passed over for that. Whoever is let in by a release learns from its reply, before it lets go itself, whether somebody of
//! another client waits; only while nobody does, the next of this client goes behind the release in the same write. One who came meanwhile is called by
//! that release in vain, once, and has its turn with the next.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use super::{LocalQueues, PendingRelease};
use crate::{
    Client,
    primitive::Waiting,
    protocol::{name::Key, waiter::Discipline},
    seam::Value,
};

/// The objects, by key and kind, for which only this client waited when it last let go of them.
#[derive(Debug, Default)]
pub(crate) struct Lone(Mutex<BTreeSet<(Key, &'static str)>>);

/// The waiter that asks right behind a release.
#[derive(Clone, Debug)]
pub(crate) struct Successor {
    local_queues: Arc<LocalQueues>,
    key: Key,
    id: u64,
}

impl Lone {
    /// Tells whether the object is one of them, once.
    fn take(&self, key: &Key, kind: &'static str) -> bool {
        let mut objects = self.objects();
        !objects.is_empty() && objects.remove(&(key.clone(), kind))
    }

    fn put(&self, key: &Key, kind: &'static str) {
        let mut objects = self.objects();
        if objects.len() >= MOST {
            // The next releases of those are ordinary ones.
            objects.clear();
        }
        objects.insert((key.clone(), kind));
    }

    fn objects(&self) -> MutexGuard<'_, BTreeSet<(Key, &'static str)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Successor {
    /// Makes it ask.
    fn call(&self) {
        self.local_queues.prompt(&self.key, self.id);
    }
}

impl PendingRelease {
    /// Names the waiter of this client that is to ask right behind it, if there is one, and nobody else waits as far as is known.
    pub(super) fn name_successor(&mut self, client: &Client) {
        // Others are served in order, whoever releases.
        if self.primitive.discipline() != Discipline::Barging {
            return;
        }
        let key = self.primitive.key();
        if !client
            .local_queues()
            .lone()
            .take(key, self.primitive.kind())
            || !self.address.is_empty()
        {
            return;
        }
        let local_queues = client.local_queues();
        if let Some((id, address)) = local_queues.first(key) {
            // Its place is struck out if this frees the name, so that the release calls another, if one has come.
            self.address = format!("+{address}");
            self.successor = Some(Box::new(Successor {
                local_queues: Arc::clone(local_queues),
                key: key.clone(),
                id,
            }));
        }
    }

    /// Takes in what the reply says of those who wait.
    pub(super) fn answered(&self, local_queues: &LocalQueues, reply: &Value) {
        let key = self.primitive.key();
        let alone = match self.primitive.waiting(reply) {
            Waiting::Unknown => false,
            Waiting::Nobody => self.successor.is_some(),
            Waiting::Somebody { called, more } => !more && local_queues.is_ours(key, called),
        };
        if alone {
            local_queues.lone().put(key, self.primitive.kind());
        }
        // A copy of this may have struck it out after it had asked.
        self.call_successor();
    }

    fn call_successor(&self) {
        if let Some(successor) = &self.successor {
            successor.call();
        }
    }
}

/// Sends releases; those who ask right behind them do so as soon as they are on their way.
///
/// # Cancel safety
///
/// As `sending` itself. Successors have been called, or wait for their turn as before.
pub(super) async fn ahead_of_successors<T>(
    mut sending: impl Future<Output = T> + Unpin,
    releases: impl Iterator<Item = &PendingRelease>,
) -> T {
    let sent = poll_fn(|context| Poll::Ready(Pin::new(&mut sending).poll(context))).await;
    releases.for_each(PendingRelease::call_successor);
    match sent {
        Poll::Ready(answer) => answer,
        Poll::Pending => sending.await,
    }
}

/// Objects whose last hold was lost are never asked for again here.
const MOST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::name::{Name, Prefix};

    #[test]
    fn a_name_is_taken_once_and_their_number_is_bounded() {
        let key = |n: usize| {
            Key::new(
                &Prefix::default(),
                &Name::parse(&format!("name-{n}")).unwrap(),
            )
        };
        let lone = Lone::default();
        lone.put(&key(0), "lock");
        assert!(!lone.take(&key(0), "semaphore"));
        assert!(lone.take(&key(0), "lock"));
        assert!(!lone.take(&key(0), "lock"));
        for n in 0..=MOST {
            lone.put(&key(n), "lock");
        }
        assert!(lone.objects().len() <= MOST);
        assert!(lone.take(&key(MOST), "lock"));
    }
}
