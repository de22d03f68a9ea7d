//! The queue of replies and pushes to one client, in one order.

use std::{collections::BTreeSet, sync::Arc};

use redlatch_core::runtime::{Push, Reply};
use tokio::sync::watch;

use super::reply;

/// The server's end of the queue. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct Outlet {
    queue: Queue,
    channels: BTreeSet<Vec<u8>>,
}

/// The socket's end of the queue.
#[derive(Debug)]
pub(super) struct Outflow(Queue);

/// What both ends share.
type Queue = Arc<watch::Sender<Buffer>>;

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Nothing follows these bytes.
    ended: bool,
    /// The connection ends at once.
    cut: bool,
}

/// Creates the two ends.
pub(super) fn pair() -> (Outlet, Outflow) {
    let queue = Queue::default();
    let outlet = Outlet {
        queue: Arc::clone(&queue),
        channels: BTreeSet::new(),
    };
    (outlet, Outflow(queue))
}

impl Outlet {
    /// Queues a reply. The reader waits for room before its next request, so this queue needs no
    /// limit here.
    pub(super) fn reply(&self, reply: &Reply) {
        self.write(|bytes| reply::reply(bytes, reply));
    }

    /// Queues a push. Returns whether there was room for it.
    #[must_use]
    pub(crate) fn push(&mut self, push: &Push) -> bool {
        match push {
            Push::Subscribed(channel) => drop(self.channels.insert(channel.clone())),
            Push::Unsubscribed(channel) => drop(self.channels.remove(channel)),
            Push::Message { .. } => {}
        }
        let has_room = self.queue.borrow().bytes.len() < MOST_PUSHED;
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
        self.queue.send_modify(|buffer| buffer.ended = true);
    }

    fn write(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.queue.send_modify(|buffer| write(&mut buffer.bytes));
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.queue.send_modify(|buffer| {
            buffer.cut = !buffer.ended;
            buffer.ended = true;
        });
    }
}

impl Outflow {
    /// Waits for bytes to write. Returns `None` if nothing is left and nothing will follow.
    pub(super) async fn next(&self) -> Option<Vec<u8>> {
        self.until(|buffer| !buffer.bytes.is_empty() || buffer.ended)
            .await;
        let mut bytes = Vec::new();
        let take = |buffer: &mut Buffer| bytes = std::mem::take(&mut buffer.bytes);
        self.0.send_modify(take);
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Waits until the queue is short enough for the reply to another request.
    pub(super) async fn room(&self) {
        self.until(|buffer| buffer.bytes.len() <= MOST_REPLIED)
            .await;
    }

    /// Waits until the server cuts the connection. Such an end does not wait for the client.
    pub(super) async fn cut(&self) {
        self.until(|buffer| buffer.cut).await;
    }

    async fn until(&self, is_so: impl FnMut(&Buffer) -> bool) {
        // An end that waits keeps the sender, so this cannot fail.
        let _ = self.0.subscribe().wait_for(is_so).await;
    }
}

/// The limit in bytes for a subscriber that does not read. Above it the connection is closed.
const MOST_PUSHED: usize = 8 << 20;

/// The number of queued bytes above which a client's further requests wait.
const MOST_REPLIED: usize = 256 << 10;
