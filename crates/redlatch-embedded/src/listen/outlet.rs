//! The queue of replies and pushes to one client, in one order.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use redlatch_core::runtime::{Push, Reply};
use tokio::sync::Notify;

use super::reply;

/// The server's end of the queue. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct Outlet {
    shared: Arc<Shared>,
    channels: BTreeSet<Vec<u8>>,
}

/// The socket's end of the queue.
#[derive(Debug)]
pub(super) struct Outflow(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    buffer: Mutex<Buffer>,
    filled: Notify,
    drained: Notify,
    cut: Notify,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    ended: bool,
}

/// Creates the two ends.
pub(super) fn pair() -> (Outlet, Outflow) {
    let shared = Arc::<Shared>::default();
    let outlet = Outlet {
        shared: Arc::clone(&shared),
        channels: BTreeSet::new(),
    };
    (outlet, Outflow(shared))
}

impl Outlet {
    /// Queues a reply. The reader waits for room before its next request, so this queue needs no
    /// limit here.
    pub(super) fn reply(&self, reply: &Reply) {
        self.write(|bytes| reply::reply(bytes, reply));
    }

    /// Queues the reply to an `UNSUBSCRIBE` without any subscription.
    pub(super) fn unsubscribed_from_nothing(&self) {
        self.write(reply::unsubscribed_from_nothing);
    }

    /// Queues a push. Returns whether there was room for it.
    #[must_use]
    pub(crate) fn push(&mut self, push: &Push) -> bool {
        match push {
            Push::Subscribed(channel) => drop(self.channels.insert(channel.clone())),
            Push::Unsubscribed(channel) => drop(self.channels.remove(channel)),
            Push::Message { .. } => {}
        }
        let has_room = self.shared.buffer().bytes.len() < MOST_PUSHED;
        if has_room {
            let subscriptions = self.channels.len();
            self.write(|bytes| reply::push(bytes, push, subscriptions));
        }
        has_room
    }

    /// Tells whether the client is subscribed to any channel.
    pub(super) fn subscribes(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Ends the connection once everything has been written.
    pub(super) fn finish(&self) {
        self.shared.buffer().ended = true;
        self.shared.filled.notify_one();
    }

    fn write(&self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.shared.buffer().bytes);
        self.shared.filled.notify_one();
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let finished = std::mem::replace(&mut self.shared.buffer().ended, true);
        if !finished {
            self.shared.cut.notify_one();
        }
        self.shared.filled.notify_one();
    }
}

impl Outflow {
    /// Waits for bytes to write. Returns `None` if nothing is left and nothing will follow.
    pub(super) async fn next(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut buffer = self.0.buffer();
                if !buffer.bytes.is_empty() {
                    self.0.drained.notify_one();
                    return Some(std::mem::take(&mut buffer.bytes));
                }
                if buffer.ended {
                    return None;
                }
            }
            self.0.filled.notified().await;
        }
    }

    /// Waits until the queue is short enough for the reply to another request.
    pub(super) async fn room(&self) {
        while self.0.buffer().bytes.len() > MOST_REPLIED {
            self.0.drained.notified().await;
        }
    }

    /// Waits until the server cuts the connection. Such an end does not wait for the client.
    pub(super) async fn cut(&self) {
        self.0.cut.notified().await;
    }
}

impl Shared {
    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limit in bytes for a subscriber that does not read. Above it the connection is closed.
const MOST_PUSHED: usize = 8 << 20;

/// The number of queued bytes above which a client's further requests wait.
const MOST_REPLIED: usize = 256 << 10;
