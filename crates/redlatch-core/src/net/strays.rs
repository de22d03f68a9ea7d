//! Texts that a background task handles: notifications for waiters that this client does not have,
//! and changed keys.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;

use crate::base::sync::lock;

/// Messages without a listener in this client, or changed keys. Each text is stored once, until a
/// task takes it.
///
/// A server sends a message without a listener if it still has a waiter that has gone. Either the
/// waiter's undo is under way, or the server has lost it.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    state: Mutex<State>,
    nudge: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: BTreeSet<Arc<str>>,
    /// Whether a connection was made since the last [`taken`](Strays::taken).
    connected: bool,
}

impl Strays {
    /// Adds a message. Drops it if very many messages are stored. Another re-check causes another
    /// notification.
    pub(crate) fn add(&self, message: Arc<str>) {
        let mut state = lock(&self.state);
        if state.messages.len() < MOST {
            state.messages.insert(message);
            drop(state);
            self.nudge.notify_one();
        }
    }

    /// Records a new connection. The server's state may be older than this client's.
    pub(super) fn connected(&self) {
        lock(&self.state).connected = true;
        self.nudge.notify_one();
    }

    /// Waits for messages or a connection. Returns all messages, and whether a connection was made.
    pub(crate) async fn taken(&self) -> (BTreeSet<Arc<str>>, bool) {
        loop {
            let state = std::mem::take(&mut *lock(&self.state));
            if state.connected || !state.messages.is_empty() {
                return (state.messages, state.connected);
            }
            self.nudge.notified().await;
        }
    }
}

/// Maximum number of stored messages.
const MOST: usize = 4096;
