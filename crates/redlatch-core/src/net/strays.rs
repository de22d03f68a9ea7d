//! Calls to waiters that this client does not have.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;

use crate::base::sync::lock;

/// Messages that nobody of this client listened for, each once, until somebody takes them.
///
/// A server sends such a message when it remembers a waiter that has gone: its undo is under way,
/// or the server has forgotten it.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    state: Mutex<State>,
    nudge: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: BTreeSet<Arc<str>>,
    /// A connection was made since anybody looked.
    connected: bool,
}

impl Strays {
    /// Takes in a message. While very many wait to be taken it is dropped: another look calls
    /// again.
    pub(crate) fn add(&self, message: Arc<str>) {
        let mut state = lock(&self.state);
        if state.messages.len() < MOST {
            state.messages.insert(message);
            drop(state);
            self.nudge.notify_one();
        }
    }

    /// A connection was made: what the server remembers may be older than what this client knows.
    pub(super) fn connected(&self) {
        lock(&self.state).connected = true;
        self.nudge.notify_one();
    }

    /// Waits for messages or a connection; takes all messages, and tells whether a connection was
    /// made.
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

/// Messages kept at a time.
const MOST: usize = 4096;
